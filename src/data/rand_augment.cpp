#include "data/rand_augment.h"

#include <cstring>

namespace adaact {

void rand_augment(const RandAugmentOptions& options, std::uint64_t seed, std::uint32_t epoch,
                  std::uint32_t sample, const ImageShape& shape, std::uint8_t* image,
                  std::uint8_t* scratch) {
  const auto bytes = static_cast<std::size_t>(shape.bytes());
  for (std::int64_t place = 0; place < options.operations; ++place) {
    const auto draw =
        draw_operation(options, seed, epoch, sample, static_cast<std::uint32_t>(place));
    if (!draw.applied) continue;
    std::memcpy(scratch, image, bytes);
    apply_operation(draw.operation, draw.argument, draw.filter, shape, scratch, image);
  }
}

}  // namespace adaact
