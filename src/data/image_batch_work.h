#pragma once

// What is done to the images of a batch on a GPU: for each step what one thread does, which is one element of one
// image. Plain functions of memory and indices, so that tests run them in loops on the CPU.

#include <cstdint>

#include <adaact/data/random_stream.h>

#include "data/image_batch_plan.h"
#include "data/pixel_arithmetic.h"
#include "data/random_erasing.h"
#include "data/resample_arithmetic.h"

namespace adaact {

/// Images of bytes (images, C, H, W).
template <typename Byte>
struct BytePlanes {
  Byte* bytes;
  int channels;
  int height;
  int width;

  ADAACT_HOST_DEVICE int pixels() const { return height * width; }
  ADAACT_HOST_DEVICE Byte* plane(std::int64_t image, int channel) const {
    return bytes + (image * channels + channel) * pixels();
  }
};

/// Weights of all output rows and columns of images that are scaled: first those of the rows.
struct TapTable {
  std::int32_t* first;    // (images, height + width)
  std::int32_t* taps;     // (images, height + width)
  std::int32_t* weights;  // (images, height + width, most)
  int height;
  int width;
  int most;  // taps of an output

  ADAACT_HOST_DEVICE int outputs() const { return height + width; }
  ADAACT_HOST_DEVICE std::int64_t line(std::int64_t scaled, int y) const {
    return scaled * outputs() + y;
  }
  ADAACT_HOST_DEVICE std::int64_t column(std::int64_t scaled, int x) const {
    return scaled * outputs() + height + x;
  }
};

struct FindTaps {
  const ScalePlan* plans;
  TapTable table;

  ADAACT_HOST_DEVICE int elements(std::int64_t /*scaled*/) const { return table.outputs(); }
  ADAACT_HOST_DEVICE void operator()(std::int64_t scaled, int output) const {
    const ScalePlan& plan = plans[scaled];
    const bool is_line = output < table.height;
    const auto in = is_line ? plan.height : plan.width;
    const int out = is_line ? table.height : table.width;
    int i = is_line ? output : output - table.height;
    if (plan.mirrored && !is_line) i = out - 1 - i;
    const auto window = tap_window(in, out, i, plan.filter);
    double sum = 0.0;
    for (auto input = window.first; input < window.end; ++input) {
      sum += tap_weight(window, input, plan.filter);
    }
    const auto place = scaled * table.outputs() + output;
    table.first[place] = static_cast<std::int32_t>(window.first);
    table.taps[place] = static_cast<std::int32_t>(window.end - window.first);
    auto* weight = table.weights + place * table.most;
    for (auto input = window.first; input < window.end; ++input) {
      *weight++ = in_fixed_point(tap_weight(window, input, plan.filter) / sum);
    }
  }
};

/// The rows of the sources, scaled along x: (height, W, 3) of each.
struct ScaleRows {
  const ScalePlan* plans;
  TapTable table;
  const std::uint8_t* sources;
  std::uint8_t* rows;

  ADAACT_HOST_DEVICE int elements(std::int64_t scaled) const {
    return static_cast<int>(plans[scaled].height) * table.width;
  }
  ADAACT_HOST_DEVICE void operator()(std::int64_t scaled, int element) const {
    const ScalePlan& plan = plans[scaled];
    const auto y = element / table.width;
    const auto place = table.column(scaled, element % table.width);
    const auto* in = sources + plan.source + (y * plan.width + table.first[place]) * 3;
    const auto* weights = table.weights + place * table.most;
    std::int32_t sums[3] = {kHalfAWeight, kHalfAWeight, kHalfAWeight};
    for (std::int32_t tap = 0; tap < table.taps[place]; ++tap, in += 3) {
      for (int c = 0; c < 3; ++c) sums[c] += weights[tap] * in[c];
    }
    auto* out = rows + plan.rows + element * 3;
    for (int c = 0; c < 3; ++c) out[c] = level_of_sum(sums[c]);
  }
};

/// The planes of the images, of scaled rows.
struct ScaleLines {
  const ScalePlan* plans;
  TapTable table;
  const std::uint8_t* rows;
  BytePlanes<std::uint8_t> out;

  ADAACT_HOST_DEVICE int elements(std::int64_t /*scaled*/) const { return out.pixels(); }
  ADAACT_HOST_DEVICE void operator()(std::int64_t scaled, int pixel) const {
    const ScalePlan& plan = plans[scaled];
    const auto x = pixel % table.width;
    const auto place = table.line(scaled, pixel / table.width);
    const auto* in = rows + plan.rows + (table.first[place] * table.width + x) * 3;
    const auto* weights = table.weights + place * table.most;
    std::int32_t sums[3] = {kHalfAWeight, kHalfAWeight, kHalfAWeight};
    for (std::int32_t tap = 0; tap < table.taps[place]; ++tap, in += 3 * table.width) {
      for (int c = 0; c < 3; ++c) sums[c] += weights[tap] * in[c];
    }
    for (int c = 0; c < 3; ++c) out.plane(plan.image, c)[pixel] = level_of_sum(sums[c]);
  }
};

/// Which levels an operation wants to know the frequencies of.
struct CountedLevels {
  const OperationPlan* plans;  // (images)
  BytePlanes<const std::uint8_t> in;

  /// Contrast wants those of the grey image, in the place of the first channel's.
  ADAACT_HOST_DEVICE bool are_wanted(std::int64_t image, int channel) const {
    const OperationPlan& plan = plans[image];
    if (!plan.applied) return false;
    if (plan.operation == ImageOperation::Contrast) return channel == 0;
    return plan.operation == ImageOperation::AutoContrast ||
           plan.operation == ImageOperation::Equalize;
  }
  ADAACT_HOST_DEVICE int at(std::int64_t image, int channel, int pixel) const {
    if (plans[image].operation != ImageOperation::Contrast) return in.plane(image, channel)[pixel];
    return grey_of(in.plane(image, 0)[pixel], in.plane(image, 1)[pixel], in.plane(image, 2)[pixel]);
  }
};

/// AutoContrast's new level.
ADAACT_HOST_DEVICE inline std::uint8_t stretched_by_counts(const std::int32_t* counts, int level) {
  int lowest = 0;
  while (lowest < kLevels - 1 && counts[lowest] == 0) ++lowest;
  int highest = kLevels - 1;
  while (highest > 0 && counts[highest] == 0) --highest;
  return stretched(level, lowest, highest);
}

/// Equalize's new level.
ADAACT_HOST_DEVICE inline std::uint8_t equalized_by_counts(const std::int32_t* counts, int level) {
  std::int64_t pixels = 0;
  std::int64_t of_highest = 0;
  std::int64_t below = 0;
  for (int i = 0; i < kLevels; ++i) {
    if (i == level) below = pixels;
    pixels += counts[i];
    if (counts[i] > 0) of_highest = counts[i];
  }
  return equalized(level, below, (pixels - of_highest) / 255);
}

/// The grey that Contrast starts from.
ADAACT_HOST_DEVICE inline int mean_grey(const std::int32_t* counts) {
  std::int64_t pixels = 0;
  std::int64_t sum = 0;
  for (int i = 0; i < kLevels; ++i) {
    pixels += counts[i];
    sum += std::int64_t{counts[i]} * i;
  }
  const double mean = static_cast<double>(sum) / static_cast<double>(pixels);
  return static_cast<int>(std::floor(mean + 0.5));
}

/// The tables (images, 3, 256) of operations that give every level another one.
struct MakeTables {
  const OperationPlan* plans;  // (images)
  const std::int32_t* counts;  // (images, 3, 256)
  std::uint8_t* tables;

  ADAACT_HOST_DEVICE int elements(std::int64_t image) const {
    return plans[image].applied ? 3 * kLevels : 0;
  }
  ADAACT_HOST_DEVICE void operator()(std::int64_t image, int element) const {
    const auto* of_image = counts + image * 3 * kLevels;
    const auto* of_plane = of_image + element / kLevels * kLevels;
    const int level = static_cast<int>(element % kLevels);
    tables[image * 3 * kLevels + element] = new_level(plans[image], of_image, of_plane, level);
  }

 private:
  ADAACT_HOST_DEVICE static std::uint8_t new_level(const OperationPlan& plan,
                                                   const std::int32_t* of_grey,
                                                   const std::int32_t* of_plane, int level) {
    const auto factor = static_cast<float>(plan.argument);
    const auto whole = static_cast<int>(plan.argument);
    switch (plan.operation) {
      case ImageOperation::AutoContrast:
        return stretched_by_counts(of_plane, level);
      case ImageOperation::Equalize:
        return equalized_by_counts(of_plane, level);
      case ImageOperation::Invert:
        return solarized(level, 0);
      case ImageOperation::Posterize:
        return posterized(level, whole);
      case ImageOperation::Solarize:
        return solarized(level, whole);
      case ImageOperation::SolarizeAdd:
        return brightened_if_dark(level, whole);
      case ImageOperation::Contrast:
        return blended(mean_grey(of_grey), level, factor);
      case ImageOperation::Brightness:
        return blended(0, level, factor);
      default:
        return static_cast<std::uint8_t>(level);
    }
  }
};

/// One place of RandAugment: every pixel of `in`, changed or not, goes to `out`.
struct ApplyOperations {
  const OperationPlan* plans;  // (images)
  const std::uint8_t* tables;  // (images, 3, 256)
  BytePlanes<const std::uint8_t> in;
  BytePlanes<std::uint8_t> out;

  ADAACT_HOST_DEVICE int elements(std::int64_t /*image*/) const { return in.pixels(); }
  ADAACT_HOST_DEVICE void operator()(std::int64_t image, int pixel) const {
    const OperationPlan& plan = plans[image];
    if (!plan.applied) return copy(image, pixel);
    if (is_geometric(plan.operation)) return warp(plan, image, pixel);
    if (plan.operation == ImageOperation::Color) return colour(plan, image, pixel);
    if (plan.operation == ImageOperation::Sharpness) return sharpen(plan, image, pixel);
    for (int c = 0; c < 3; ++c) {
      const auto* table = tables + (image * 3 + c) * kLevels;
      out.plane(image, c)[pixel] = table[in.plane(image, c)[pixel]];
    }
  }

 private:
  ADAACT_HOST_DEVICE void copy(std::int64_t image, int pixel) const {
    for (int c = 0; c < 3; ++c) out.plane(image, c)[pixel] = in.plane(image, c)[pixel];
  }

  ADAACT_HOST_DEVICE void colour(const OperationPlan& plan, std::int64_t image, int pixel) const {
    const int levels[3] = {in.plane(image, 0)[pixel], in.plane(image, 1)[pixel],
                           in.plane(image, 2)[pixel]};
    const int grey = grey_of(levels[0], levels[1], levels[2]);
    const auto factor = static_cast<float>(plan.argument);
    for (int c = 0; c < 3; ++c) out.plane(image, c)[pixel] = blended(grey, levels[c], factor);
  }

  ADAACT_HOST_DEVICE void sharpen(const OperationPlan& plan, std::int64_t image, int pixel) const {
    const auto y = pixel / in.width;
    const auto x = pixel % in.width;
    const bool border = y == 0 || y == in.height - 1 || x == 0 || x == in.width - 1;
    if (border) return copy(image, pixel);
    const auto factor = static_cast<float>(plan.argument);
    for (int c = 0; c < 3; ++c) {
      const auto* at = in.plane(image, c) + pixel;
      int sum = 0;
      for (int row = -1; row <= 1; ++row) {
        for (int column = -1; column <= 1; ++column) sum += at[row * in.width + column];
      }
      out.plane(image, c)[pixel] = blended(smoothed(sum, at[0]), at[0], factor);
    }
  }

  ADAACT_HOST_DEVICE void warp(const OperationPlan& plan, std::int64_t image, int pixel) const {
    const auto at = mapped(plan.map, pixel % in.width, pixel / in.width);
    const bool inside = lies_inside(at, in.height, in.width);
    const auto place = place_between(inside ? at : Position{0.0, 0.0});
    for (int c = 0; c < 3; ++c) {
      const auto* plane = in.plane(image, c);
      out.plane(image, c)[pixel] = !inside                                  ? outside_level(c)
                                   : plan.filter == ResampleFilter::Bicubic ? cubic(plane, place)
                                                                            : linear(plane, place);
    }
  }

  /// The pixel of a plane that is nearest to a place, which may lie outside.
  ADAACT_HOST_DEVICE double nearest(const std::uint8_t* plane, int y, int x) const {
    const int bottom = in.height - 1;
    const int right = in.width - 1;
    const int row = y < 0 ? 0 : (y > bottom ? bottom : y);
    const int column = x < 0 ? 0 : (x > right ? right : x);
    return plane[row * in.width + column];
  }

  ADAACT_HOST_DEVICE double linear_row(const std::uint8_t* plane, const PlaceBetween& place,
                                       int row) const {
    const int y = place.y + row;
    return linear_between(nearest(plane, y, place.x), nearest(plane, y, place.x + 1), place.right);
  }
  ADAACT_HOST_DEVICE std::uint8_t linear(const std::uint8_t* plane,
                                         const PlaceBetween& place) const {
    return level_between(
        linear_between(linear_row(plane, place, 0), linear_row(plane, place, 1), place.down));
  }

  ADAACT_HOST_DEVICE double cubic_row(const std::uint8_t* plane, const PlaceBetween& place,
                                      int row) const {
    const int y = place.y + row;
    return cubic_between(nearest(plane, y, place.x - 1), nearest(plane, y, place.x),
                         nearest(plane, y, place.x + 1), nearest(plane, y, place.x + 2),
                         place.right);
  }
  ADAACT_HOST_DEVICE std::uint8_t cubic(const std::uint8_t* plane,
                                        const PlaceBetween& place) const {
    return level_between(cubic_between(cubic_row(plane, place, -1), cubic_row(plane, place, 0),
                                       cubic_row(plane, place, 1), cubic_row(plane, place, 2),
                                       place.down));
  }
};

/// Mixes, normalises and erases: what comes after all that is done to bytes.
template <typename Value>
struct FinishImages {
  BytePlanes<const std::uint8_t> in;
  const Value* values;           // (C, 256): what a byte of a channel becomes
  const std::uint32_t* samples;  // (images)
  const PixelBox* erased;        // (images), or null
  std::int64_t images;
  bool mixed;
  MixDraw mix;
  std::uint64_t seed;
  std::uint32_t epoch;
  bool channels_last;
  Value* out;

  ADAACT_HOST_DEVICE int elements(std::int64_t /*image*/) const { return in.pixels(); }
  ADAACT_HOST_DEVICE void operator()(std::int64_t image, int pixel) const {
    const auto y = pixel / in.width;
    const auto x = pixel % in.width;
    const bool is_noise = erased != nullptr && contains(erased[image], y, x);
    for (int c = 0; c < in.channels; ++c) {
      const auto value =
          is_noise ? noise(image, c, y, x) : values[c * kLevels + level(image, c, pixel, y, x)];
      const auto place = channels_last ? pixel * in.channels + c : c * in.pixels() + pixel;
      out[image * (in.channels * in.pixels()) + place] = value;
    }
  }

 private:
  ADAACT_HOST_DEVICE static bool contains(const PixelBox& box, int y, int x) {
    return y >= box.top && y < box.top + box.height && x >= box.left && x < box.left + box.width;
  }

  ADAACT_HOST_DEVICE int level(std::int64_t image, int c, int pixel, int y, int x) const {
    const int own = in.plane(image, c)[pixel];
    const auto partner = image ^ 1;  // its neighbour; of an odd number the last image has none
    if (!mixed || partner >= images) return own;
    const int other = in.plane(partner, c)[pixel];
    if (mix.cut) return contains(mix.box, y, x) ? other : own;
    return mixed_level(own, other, static_cast<float>(mix.own_share),
                       static_cast<float>(1.0 - mix.own_share));
  }

  ADAACT_HOST_DEVICE Value noise(std::int64_t image, int c, int y, int x) const {
    const PixelBox& box = erased[image];
    const auto number =
        static_cast<std::uint32_t>((c * box.height + y - box.top) * box.width + x - box.left);
    const RandomStream stream(seed, RandomPurpose::Erase, epoch, samples[image]);
    float of_block[4];
    erasing_noise(stream, number / 4, of_block);
    return static_cast<Value>(of_block[number % 4]);
  }
};

}  // namespace adaact
