#include "moments/offered_squares.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "kernels/sum_dtype.h"
#include "observe/wants_squares.h"

namespace adaact {
namespace {

/// An input is read soon after it was written; a block's output by two layers.
constexpr std::size_t kMostOffers = 8;

struct Offer {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  std::int64_t offset;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t version;
  torch::Tensor parts;
};

std::deque<Offer>& offers_of_thread() {
  thread_local std::deque<Offer> offers;
  return offers;
}

bool all_are(const std::vector<std::int64_t>& values, std::int64_t expected) {
  return std::all_of(values.begin(), values.end(),
                     [&](std::int64_t value) { return value == expected; });
}

bool are_padded_by(const Geometry& geometry, std::int64_t padding) {
  return all_are(geometry.padding_before, padding) && all_are(geometry.padding_after, padding);
}

/// Images that the kernels read pixel by pixel, with numbers far from where a few of them would leave 32 bits.
bool have_a_readable_border(const torch::Tensor& images) {
  constexpr std::int64_t kMostChannels = 1 << 24;
  constexpr std::int64_t kMostPixels = 1 << 20;  // side by side
  const auto is_side = [](std::int64_t size) { return size >= 2 && size <= kMostPixels; };
  return images.numel() > 0 && images.size(1) <= kMostChannels && is_side(images.size(2)) &&
         is_side(images.size(3)) && has_kernels(images.scalar_type()) &&
         images.is_contiguous(torch::MemoryFormat::ChannelsLast);
}

}  // namespace

bool squares_are_wanted(const torch::Tensor& parameter) {
  return at::GradMode::is_enabled() && has_listener_for_squares(parameter);
}

void offer_squares(const torch::Tensor& written, const torch::Tensor& parts) {
  const auto channels = written.size(written.dim() == 4 ? 1 : -1);
  TORCH_INTERNAL_ASSERT(parts.dim() == 2 && parts.size(1) == channels && parts.is_contiguous());
  auto& offers = offers_of_thread();
  offers.erase(std::remove_if(offers.begin(), offers.end(),
                              [](const Offer& offer) { return offer.storage.expired(); }),
               offers.end());
  if (offers.size() == kMostOffers) offers.pop_front();
  offers.push_back({written.storage().getWeakStorageImpl(), written.storage_offset(),
                    written.sizes().vec(), written.strides().vec(), written._version(), parts});
}

torch::Tensor offered_squares(const torch::Tensor& input) {
  if (!input.has_storage()) return {};
  const auto* storage = input.storage().unsafeGetStorageImpl();
  for (const auto& offer : offers_of_thread()) {
    if (offer.storage._unsafe_get_target() == storage && !offer.storage.expired() &&
        offer.offset == input.storage_offset() && input.sizes() == offer.sizes &&
        input.strides() == offer.strides && input._version() == offer.version) {
      return offer.parts;
    }
  }
  return {};
}

StillToRead still_to_read(const torch::Tensor& input, const Geometry& geometry) {
  if (geometry.groups != 1 || !all_are(geometry.stride, 1)) return StillToRead::Everything;
  // The channels that the layer reads are those that were summed over.
  const bool are_images = input.dim() == 4;
  if (are_images ? geometry.spatial_dims() != 2 : !geometry.is_linear()) {
    return StillToRead::Everything;
  }
  if (all_are(geometry.kernel, 1) && are_padded_by(geometry, 0)) return StillToRead::Nothing;
  if (are_images && all_are(geometry.kernel, 3) && are_padded_by(geometry, 1) &&
      all_are(geometry.dilation, 1) && have_a_readable_border(input)) {
    return StillToRead::Border;
  }
  return StillToRead::Everything;
}

}  // namespace adaact
