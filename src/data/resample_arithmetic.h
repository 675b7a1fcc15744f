#pragma once

// What an output pixel takes from the input pixels along one axis, in Pillow's arithmetic, for the CPU and a GPU
// alike. The steps are rounded as they stand here: as in pixel_arithmetic.h nothing may be fused.

#include <cmath>
#include <cstdint>

#include <adaact/data/image_part.h>
#include <adaact/data/philox.h>

namespace adaact {

/// An axis of an image that is scaled from `in` to `out` pixels, of which only the `count` from `begin` on are wanted.
struct ScaledAxis {
  std::int64_t in;
  std::int64_t out;
  std::int64_t begin;
  std::int64_t count;
};

/// A weight is an integer, of which so many bits stand behind the binary point.
constexpr int kWeightBits = 22;
constexpr std::int32_t kHalfAWeight = 1 << (kWeightBits - 1);

/// What the filter makes of the input pixels around an output pixel.
struct TapWindow {
  std::int64_t first;  // of the inputs that have a weight
  std::int64_t end;
  double centre;  // of the output pixel, in input pixels
  double shrink;  // by which distances from it are scaled before the filter is asked
};

/// The whole number that is nearest to x; of two that are equally near the larger one.
ADAACT_HOST_DEVICE inline std::int64_t nearest_whole(double x) {
  return static_cast<std::int64_t>(std::floor(x + 0.5));
}

/// `i` is counted from the beginning of the scaled axis.
ADAACT_HOST_DEVICE inline TapWindow tap_window(std::int64_t in, std::int64_t out, std::int64_t i,
                                               ResampleFilter filter) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double stretch = scale < 1.0 ? 1.0 : scale;
  const double reach = (filter == ResampleFilter::Bilinear ? 1.0 : 2.0) * stretch;
  const double centre = (static_cast<double>(i) + 0.5) * scale;
  const auto first = nearest_whole(centre - reach);
  const auto end = nearest_whole(centre + reach);
  return {first < 0 ? 0 : first, end > in ? in : end, centre, 1.0 / stretch};
}

ADAACT_HOST_DEVICE inline double triangle_filter(double x) {
  x = std::fabs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

/// The cubic convolution with a = -½.
ADAACT_HOST_DEVICE inline double cubic_filter(double x) {
  constexpr double kA = -0.5;
  x = std::fabs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * kA : 0.0;
}

/// The weight of an input pixel, before all of a window are divided by their sum.
ADAACT_HOST_DEVICE inline double tap_weight(const TapWindow& window, std::int64_t input,
                                            ResampleFilter filter) {
  const double x = (static_cast<double>(input) - window.centre + 0.5) * window.shrink;
  return filter == ResampleFilter::Bilinear ? triangle_filter(x) : cubic_filter(x);
}

ADAACT_HOST_DEVICE inline std::int32_t in_fixed_point(double weight) {
  const double scaled = weight * (1 << kWeightBits);
  return static_cast<std::int32_t>(weight < 0.0 ? scaled - 0.5 : scaled + 0.5);
}

/// The level that a sum of weighted levels stands for; the sum began with kHalfAWeight.
ADAACT_HOST_DEVICE inline std::uint8_t level_of_sum(std::int32_t sum) {
  const auto level = sum >> kWeightBits;
  return static_cast<std::uint8_t>(level < 0 ? 0 : (level > 255 ? 255 : level));
}

}  // namespace adaact
