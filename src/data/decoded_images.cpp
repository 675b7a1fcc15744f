#include "data/decoded_images.h"

#include <cstring>
#include <new>

namespace adaact {

DecodedImages::DecodedImages(std::size_t images, std::size_t bytes_of_image, std::size_t most_bytes)
    : bytes_of_image_(bytes_of_image) {
  if (images == 0 || bytes_of_image > most_bytes / images) return;
  // The memory is not cleared, so that the system hands out its pages only as images are written to them.
  pixels_.reset(new (std::nothrow) std::uint8_t[images * bytes_of_image]);
  if (pixels_ != nullptr) places_ = std::make_unique<std::atomic<Place>[]>(images);
}

const std::uint8_t* DecodedImages::find(std::size_t image) const {
  if (places_ == nullptr) return nullptr;
  const bool filled = places_[image].load(std::memory_order_acquire) == Place::Filled;
  return filled ? pixels_.get() + image * bytes_of_image_ : nullptr;
}

void DecodedImages::keep(std::size_t image, const std::uint8_t* pixels) {
  if (places_ == nullptr) return;
  auto empty = Place::Empty;  // two threads may have decoded it; one of them keeps it
  if (!places_[image].compare_exchange_strong(empty, Place::BeingFilled)) return;
  std::memcpy(pixels_.get() + image * bytes_of_image_, pixels, bytes_of_image_);
  places_[image].store(Place::Filled, std::memory_order_release);
}

}  // namespace adaact
