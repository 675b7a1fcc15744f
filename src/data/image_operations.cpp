#include "data/image_operations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "data/pixel_arithmetic.h"
#include "data/warp_image.h"
#include "kernels/cpu_dispatch.h"

namespace adaact {
namespace {

/// What becomes of every level, and how often one occurs.
using LevelTable = std::array<std::uint8_t, kLevels>;
using LevelCounts = std::array<std::int64_t, kLevels>;

struct Planes {
  const std::uint8_t* in;
  std::uint8_t* out;
  std::int64_t height;
  std::int64_t width;

  std::int64_t pixels() const { return height * width; }
  const std::uint8_t* plane(std::int64_t c) const { return in + c * pixels(); }
};

/// Neighbours, often equal, are counted apart: to count up the same number again takes a wait.
LevelCounts count_levels(const std::uint8_t* plane, std::int64_t pixels) {
  constexpr std::int64_t kApart = 4;
  std::array<LevelCounts, kApart> counts{};
  for (std::int64_t i = 0; i < pixels; ++i)
    ++counts[static_cast<std::size_t>(i % kApart)][plane[i]];
  for (std::size_t level = 0; level < kLevels; ++level) {
    for (std::size_t i = 1; i < kApart; ++i) counts[0][level] += counts[i][level];
  }
  return counts[0];
}

template <typename NewLevel>
LevelTable table_of(const NewLevel& new_level) {
  LevelTable table{};
  for (int level = 0; level < kLevels; ++level) {
    table[static_cast<std::size_t>(level)] = new_level(level);
  }
  return table;
}

LevelTable stretching(const LevelCounts& counts) {
  const auto occurs = [](std::int64_t count) { return count > 0; };
  const auto lowest = std::find_if(counts.begin(), counts.end(), occurs) - counts.begin();
  const auto highest = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), occurs) - 1;
  return table_of([&](int level) {
    return stretched(level, static_cast<int>(lowest), static_cast<int>(highest));
  });
}

LevelTable equalization(const LevelCounts& counts) {
  std::int64_t pixels = 0;
  std::int64_t highest = 0;  // pixels of the highest level
  for (const auto count : counts) {
    pixels += count;
    if (count > 0) highest = count;
  }
  const auto step = (pixels - highest) / 255;
  std::int64_t below = 0;
  return table_of([&](int level) {
    const auto result = equalized(level, below, step);
    below += counts[static_cast<std::size_t>(level)];
    return result;
  });
}

void look_up(const LevelTable& table, const std::uint8_t* in, std::int64_t count,
             std::uint8_t* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = table[in[i]];
}

/// Every level becomes another.
template <typename NewLevel>
void change_levels(const Planes& planes, const NewLevel& new_level) {
  look_up(table_of(new_level), planes.in, 3 * planes.pixels(), planes.out);
}

/// Changes levels by a table that each plane's own counts make.
void change_levels_by_counts(const Planes& planes, LevelTable (*table)(const LevelCounts&)) {
  const auto pixels = planes.pixels();
  for (std::int64_t c = 0; c < 3; ++c) {
    look_up(table(count_levels(planes.plane(c), pixels)), planes.plane(c), pixels,
            planes.out + c * pixels);
  }
}

void change_contrast(const Planes& planes, float factor) {
  const auto pixels = planes.pixels();
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < pixels; ++i) {
    sum += grey_of(planes.plane(0)[i], planes.plane(1)[i], planes.plane(2)[i]);
  }
  const auto mean = static_cast<double>(sum) / static_cast<double>(pixels);
  const int grey = static_cast<int>(std::floor(mean + 0.5));
  change_levels(planes, [&](int level) { return blended(grey, level, factor); });
}

struct ChangeColour {
  static ADAACT_LOOP_BODY void run(const std::uint8_t* in, std::int64_t pixels, float factor,
                                   std::uint8_t* out) {
    for (std::int64_t i = 0; i < pixels; ++i) {
      const int red = in[i];
      const int green = in[i + pixels];
      const int blue = in[i + 2 * pixels];
      const int grey = grey_of(red, green, blue);
      out[i] = blended(grey, red, factor);
      out[i + pixels] = blended(grey, green, factor);
      out[i + 2 * pixels] = blended(grey, blue, factor);
    }
  }
};

/// A row but for its first and last pixel.
struct SharpenRow {
  static ADAACT_LOOP_BODY void run(const std::uint8_t* above, const std::uint8_t* row,
                                   const std::uint8_t* below, std::int64_t width, float factor,
                                   std::uint8_t* out) {
    const auto three = [](const std::uint8_t* at) { return at[-1] + at[0] + at[1]; };
    for (std::int64_t x = 1; x < width - 1; ++x) {
      const int sum = three(above + x) + three(row + x) + three(below + x);
      out[x] = blended(smoothed(sum, row[x]), row[x], factor);
    }
  }
};

/// Pixels of the border stay as they are.
void sharpen(const Planes& planes, float factor) {
  const auto [in, out, height, width] = planes;
  std::memcpy(out, in, static_cast<std::size_t>(3 * planes.pixels()));
  for (std::int64_t row = 0; row < 3 * height; ++row) {
    const auto y = row % height;
    if (y == 0 || y == height - 1) continue;
    const auto* at = in + row * width;
    run_vectorized<SharpenRow>(at - width, at, at + width, width, factor, out + row * width);
  }
}

}  // namespace

void apply_operation(ImageOperation operation, double argument, ResampleFilter filter,
                     const ImageShape& shape, const std::uint8_t* in, std::uint8_t* out) {
  const Planes planes{in, out, shape.height, shape.width};
  const auto factor = static_cast<float>(argument);
  const auto whole = static_cast<int>(argument);
  switch (operation) {
    case ImageOperation::AutoContrast:
      return change_levels_by_counts(planes, stretching);
    case ImageOperation::Equalize:
      return change_levels_by_counts(planes, equalization);
    case ImageOperation::Invert:
      return change_levels(planes, [](int level) { return solarized(level, 0); });
    case ImageOperation::Posterize:
      return change_levels(planes, [&](int level) { return posterized(level, whole); });
    case ImageOperation::Solarize:
      return change_levels(planes, [&](int level) { return solarized(level, whole); });
    case ImageOperation::SolarizeAdd:
      return change_levels(planes, [&](int level) { return brightened_if_dark(level, whole); });
    case ImageOperation::Color:
      return run_vectorized<ChangeColour>(in, planes.pixels(), factor, out);
    case ImageOperation::Contrast:
      return change_contrast(planes, factor);
    case ImageOperation::Brightness:
      return change_levels(planes, [&](int level) { return blended(0, level, factor); });
    case ImageOperation::Sharpness:
      return sharpen(planes, factor);
    case ImageOperation::Rotate:
    case ImageOperation::ShearX:
    case ImageOperation::ShearY:
    case ImageOperation::TranslateX:
    case ImageOperation::TranslateY:
      return warp_image(map_of(operation, argument, shape), filter, shape, in, out);
  }
}

AffineMap map_of(ImageOperation operation, double argument, const ImageShape& shape) {
  switch (operation) {
    case ImageOperation::Rotate:
      return rotation(argument, shape.height, shape.width);
    case ImageOperation::ShearX:
      return {1, argument, 0, 0, 1, 0};
    case ImageOperation::ShearY:
      return {1, 0, 0, argument, 1, 0};
    case ImageOperation::TranslateX:
      return {1, 0, argument * static_cast<double>(shape.width), 0, 1, 0};
    case ImageOperation::TranslateY:
      return {1, 0, 0, 0, 1, argument * static_cast<double>(shape.height)};
    default:
      return {1, 0, 0, 0, 1, 0};
  }
}

}  // namespace adaact
