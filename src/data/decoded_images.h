#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace adaact {

/// The pixels of images that were decoded before, as far as all of them fit: decoding takes longer than a
/// small model. All methods may be called from several threads.
class DecodedImages {
 public:
  /// Takes no memory before images are kept, and none ever where they would take more than `most_bytes`.
  DecodedImages(std::size_t images, std::size_t bytes_of_image,
                std::size_t most_bytes = kMostBytes);

  /// The pixels of an image; null where they have not been kept.
  const std::uint8_t* find(std::size_t image) const;
  void keep(std::size_t image, const std::uint8_t* pixels);

  static constexpr std::size_t kMostBytes = std::size_t{1} << 30;

 private:
  enum class Place : std::uint8_t { Empty, BeingFilled, Filled };

  std::size_t bytes_of_image_;
  std::unique_ptr<std::uint8_t[]> pixels_;        // (images, bytes_of_image), or none
  std::unique_ptr<std::atomic<Place>[]> places_;  // of every image
};

}  // namespace adaact
