#include "data/mix_images.h"

#include <algorithm>
#include <cmath>

#include <adaact/data/random_stream.h>

#include "data/normal_pair.h"
#include "kernels/cpu_dispatch.h"

namespace adaact {
namespace {

double open_uniform(RandomStream& stream) {  // in (0, 1)
  return (static_cast<double>(stream.next()) + 0.5) * 0x1p-32;
}

/// The logarithm of a number of the gamma distribution, by Marsaglia and Tsang, "A simple method for generating
/// gamma variables" (2000): for a shape below 1 the number itself may be too small for a double.
double log_gamma_draw(RandomStream& stream, double shape) {
  const bool small = shape < 1.0;
  const double d = (small ? shape + 1.0 : shape) - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  const double correction = small ? std::log(open_uniform(stream)) / shape : 0.0;
  for (;;) {
    const auto word = stream.next();
    const double x = normal_pair(word, stream.next()).first;
    const double root = 1.0 + c * x;
    const double v = root * root * root;
    const double uniform = open_uniform(stream);
    if (root <= 0.0) continue;
    if (std::log(uniform) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return std::log(d * v) + correction;
    }
  }
}

double beta_draw(RandomStream& stream, double alpha) {
  const double first = log_gamma_draw(stream, alpha);
  const double second = log_gamma_draw(stream, alpha);
  return 1.0 / (1.0 + std::exp(second - first));
}

/// A rectangle with the area of the other's share, about a centre; what lies outside is left out.
PixelBox box_about(std::int64_t y, std::int64_t x, double own_share, std::int64_t height,
                   std::int64_t width) {
  const double side = std::sqrt(1.0 - own_share);
  const auto half_height = static_cast<std::int64_t>(static_cast<double>(height) * side) / 2;
  const auto half_width = static_cast<std::int64_t>(static_cast<double>(width) * side) / 2;
  PixelBox box;
  box.top = std::max<std::int64_t>(y - half_height, 0);
  box.left = std::max<std::int64_t>(x - half_width, 0);
  box.height = std::min(y + half_height, height) - box.top;
  box.width = std::min(x + half_width, width) - box.left;
  return box;
}

struct MixLevels {
  static ADAACT_LOOP_BODY void run(std::uint8_t* one, std::uint8_t* other, std::int64_t count,
                                   float own_share, float other_share) {
    for (std::int64_t i = 0; i < count; ++i) {
      const int first = one[i];
      const int second = other[i];
      one[i] = mixed_level(first, second, own_share, other_share);
      other[i] = mixed_level(second, first, own_share, other_share);
    }
  }
};

void swap_boxes(const PixelBox& box, const ImageShape& shape, std::uint8_t* one,
                std::uint8_t* other) {
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    for (auto y = box.top; y < box.top + box.height; ++y) {
      const auto begin = (c * shape.height + y) * shape.width + box.left;
      std::swap_ranges(one + begin, one + begin + box.width, other + begin);
    }
  }
}

}  // namespace

MixDraw draw_mix(const MixOptions& options, std::uint64_t seed, std::uint32_t epoch,
                 std::uint32_t batch, std::int64_t height, std::int64_t width) {
  RandomStream stream(seed, RandomPurpose::Mix, epoch, batch);
  const bool heads = stream.below(2) == 1;
  const auto y = stream.below(static_cast<std::uint32_t>(height));
  const auto x = stream.below(static_cast<std::uint32_t>(width));
  MixDraw draw;
  if (!options.any()) return draw;
  const bool both = options.mixup_alpha > 0.0 && options.cutmix_alpha > 0.0;
  draw.cut = both ? heads : options.cutmix_alpha > 0.0;
  draw.own_share = beta_draw(stream, draw.cut ? options.cutmix_alpha : options.mixup_alpha);
  if (draw.cut) {
    draw.box = box_about(y, x, draw.own_share, height, width);
    const auto area = static_cast<double>(draw.box.height * draw.box.width);
    draw.own_share = 1.0 - area / static_cast<double>(height * width);
  }
  return draw;
}

void mix_pair(const MixDraw& draw, const ImageShape& shape, std::uint8_t* one,
              std::uint8_t* other) {
  if (draw.cut) return swap_boxes(draw.box, shape, one, other);
  run_vectorized<MixLevels>(one, other, shape.bytes(), static_cast<float>(draw.own_share),
                            static_cast<float>(1.0 - draw.own_share));
}

}  // namespace adaact
