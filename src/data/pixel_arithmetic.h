#pragma once

// What the operations on images do to a pixel, in Pillow's arithmetic, for the CPU and a GPU alike. The
// steps are rounded as they stand here: whoever compiles this turns the fusing of products and sums off
// (-ffp-contract=off, for nvcc -fmad=false).

#include <cmath>
#include <cstdint>

#include <adaact/data/philox.h>

namespace adaact {

constexpr int kLevels = 256;

template <typename Number>
ADAACT_HOST_DEVICE inline std::uint8_t clipped(Number value) {
  if (value <= Number{0}) return 0;
  return value >= Number{255} ? 255 : static_cast<std::uint8_t>(value);
}

/// Stretches [lowest, highest], the levels that a channel has, over all of them.
ADAACT_HOST_DEVICE inline std::uint8_t stretched(int level, int lowest, int highest) {
  if (highest <= lowest) return static_cast<std::uint8_t>(level);
  const double scale = 255.0 / (highest - lowest);
  const double offset = -lowest * scale;
  return clipped(static_cast<int>(level * scale + offset));
}

/// Where a level comes to lie when all are made equally frequent: `below` is the number of the channel's
/// pixels with lower levels, `step` a 255th of those that are not of its highest level.
ADAACT_HOST_DEVICE inline std::uint8_t equalized(int level, std::int64_t below, std::int64_t step) {
  if (step == 0) return static_cast<std::uint8_t>(level);
  return clipped((step / 2 + below) / step);
}

ADAACT_HOST_DEVICE inline std::uint8_t posterized(int level, int bits) {
  return static_cast<std::uint8_t>(level & ~((1 << (8 - bits)) - 1));
}

ADAACT_HOST_DEVICE inline std::uint8_t solarized(int level, int threshold) {
  return static_cast<std::uint8_t>(level < threshold ? level : 255 - level);
}

ADAACT_HOST_DEVICE inline std::uint8_t brightened_if_dark(int level, int amount) {
  return level < 128 ? clipped(level + amount) : static_cast<std::uint8_t>(level);
}

/// From `base` at factor 0 to `level` at factor 1, and beyond.
ADAACT_HOST_DEVICE inline std::uint8_t blended(int base, int level, float factor) {
  return clipped(static_cast<float>(base) + factor * static_cast<float>(level - base));
}

ADAACT_HOST_DEVICE inline int grey_of(int red, int green, int blue) {
  return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16;
}

/// Rounded: the mean of nine pixels of which the middle one counts five times. `sum` is that of all nine.
ADAACT_HOST_DEVICE inline int smoothed(int sum, int middle) {
  return (2 * (sum + 4 * middle) + 13) / 26;
}

/// Where the pixels of an image come from: x' = a·x + b·y + c, y' = d·x + e·y + f.
struct AffineMap {
  double a, b, c, d, e, f;
};

/// To the nearest multiple of 10⁻¹⁵, for |x| ≤ 1: so that libraries whose sines differ by a bit agree.
ADAACT_HOST_DEVICE inline double rounded_to_15_digits(double x) {
  constexpr double kScale = 1e15;
  const double scaled = x * kScale;
  const double whole = std::floor(scaled);
  const double rest = (scaled - whole) + std::fma(x, kScale, -scaled);
  const bool odd = std::fmod(whole, 2.0) != 0.0;
  const bool up = rest > 0.5 || (rest == 0.5 && odd);
  return (up ? whole + 1.0 : whole) / kScale;
}

/// The map that turns an image about its middle, against the clock for positive degrees.
ADAACT_HOST_DEVICE inline AffineMap rotation(double degrees, std::int64_t height,
                                             std::int64_t width) {
  constexpr double kDegree = 3.14159265358979323846 / 180.0;
  const double turn = std::fmod(degrees, 360.0);
  const double angle = -((turn < 0.0 ? turn + 360.0 : turn) * kDegree);
  const double cosine = rounded_to_15_digits(std::cos(angle));
  const double sine = rounded_to_15_digits(std::sin(angle));
  const double x = static_cast<double>(width) / 2.0;
  const double y = static_cast<double>(height) / 2.0;
  AffineMap map{cosine, sine, 0.0, -sine, cosine, 0.0};
  map.c = (map.a * -x + map.b * -y) + x;
  map.f = (map.d * -x + map.e * -y) + y;
  return map;
}

/// A place in an image, in pixels from its corner.
struct Position {
  double x;
  double y;
};

/// The position in the input image that the middle of an output pixel comes from.
ADAACT_HOST_DEVICE inline Position mapped(const AffineMap& map, int x, int y) {
  const double from_x = x + 0.5;
  const double from_y = y + 0.5;
  return {map.a * from_x + map.b * from_y + map.c, map.d * from_x + map.e * from_y + map.f};
}

ADAACT_HOST_DEVICE inline bool lies_inside(const Position& at, int height, int width) {
  return at.x >= 0.0 && at.x < width && at.y >= 0.0 && at.y < height;
}

/// A position as it lies between the middles of the four pixels around it: column and row of the upper left one,
/// and how far the position is to the right of its middle and below it.
struct PlaceBetween {
  int x;
  int y;
  double right;
  double down;
};

/// The level of a channel outside of an image: ImageNet's mean colour.
ADAACT_HOST_DEVICE inline std::uint8_t outside_level(std::int64_t channel) {
  return channel == 0 ? 124 : (channel == 1 ? 116 : 104);
}

/// The pixels around a position inside the image, and how far it is between them.
ADAACT_HOST_DEVICE inline PlaceBetween place_between(const Position& at) {
  const double x = at.x - 0.5;
  const double y = at.y - 0.5;
  const int left = static_cast<int>(x) - (x < 0.0 ? 1 : 0);
  const int top = static_cast<int>(y) - (y < 0.0 ? 1 : 0);
  return {left, top, x - left, y - top};
}

ADAACT_HOST_DEVICE inline double linear_between(double first, double second, double share) {
  return first + (second - first) * share;
}

/// The cubic convolution with a = -1 through four neighbours, between the second and the third.
ADAACT_HOST_DEVICE inline double cubic_between(double v1, double v2, double v3, double v4,
                                               double share) {
  const double p2 = -v1 + v3;
  const double p3 = 2.0 * (v1 - v2) + v3 - v4;
  const double p4 = -v1 + v2 - v3 + v4;
  return v2 + share * (p2 + share * (p3 + share * p4));
}

/// What lies between pixels, as a level.
ADAACT_HOST_DEVICE inline std::uint8_t level_between(double value) {
  const auto low = value < 0.0 ? 0.0 : value;
  return static_cast<std::uint8_t>(static_cast<int>(low > 255.0 ? 255.0 : low));
}

}  // namespace adaact
