#include "data/random_erasing.h"

#include <array>

namespace adaact {

void erase_randomly(double probability, std::uint64_t seed, std::uint32_t epoch,
                    std::uint32_t sample, const ImageShape& shape, ImageLayout layout,
                    float* image) {
  const auto [channels, height, width] = shape;
  const auto box = draw_erasing(probability, seed, epoch, sample, height, width);
  const bool planes = layout == ImageLayout::Planes;
  const auto channel_step = planes ? height * width : 1;
  const auto pixel_step = planes ? 1 : channels;
  const RandomStream stream(seed, RandomPurpose::Erase, epoch, sample);
  std::array<float, 4> values{};
  std::uint32_t count = 0;
  for (std::int64_t c = 0; c < channels; ++c) {
    for (auto y = box.top; y < box.top + box.height; ++y) {
      for (auto x = box.left; x < box.left + box.width; ++x, ++count) {
        if (count % 4 == 0) erasing_noise(stream, count / 4, values.data());
        image[c * channel_step + (y * width + x) * pixel_step] = values[count % 4];
      }
    }
  }
}

}  // namespace adaact
