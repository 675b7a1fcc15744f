#include "data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace {

using adaact::resize_and_crop;
using adaact::RgbImage;
using adaact::testing::contains;
using adaact::testing::error_of;

RgbImage varied(std::int64_t height, std::int64_t width) {
  RgbImage image{height, width, {}};
  unsigned state = 12345;
  for (std::int64_t i = 0; i < height * width * 3; ++i) {
    state = state * 1103515245 + 12345;
    image.pixels.push_back(static_cast<std::uint8_t>(state >> 16));
  }
  return image;
}

std::vector<std::uint8_t> resized(const RgbImage& image, std::int64_t resize, std::int64_t crop) {
  std::vector<std::uint8_t> planes(static_cast<std::size_t>(3 * crop * crop));
  resize_and_crop(image, resize, crop, planes.data());
  return planes;
}

double triangle(std::int64_t in, double centre, double reach) {
  return std::max(0.0, 1.0 - std::abs(static_cast<double>(in) + 0.5 - centre) / reach);
}

/// The definition: a weighted mean over the whole input for every output pixel, in double.
double reference(const RgbImage& image, std::int64_t resize, std::int64_t crop, std::int64_t c,
                 std::int64_t y, std::int64_t x) {
  const auto shorter = std::min(image.height, image.width);
  const auto height = resize * image.height / shorter;
  const auto width = resize * image.width / shorter;
  const auto scale_y = static_cast<double>(image.height) / static_cast<double>(height);
  const auto scale_x = static_cast<double>(image.width) / static_cast<double>(width);
  const auto centre_y =
      (static_cast<double>(y) + std::nearbyint(static_cast<double>(height - crop) / 2) + 0.5) *
      scale_y;
  const auto centre_x =
      (static_cast<double>(x) + std::nearbyint(static_cast<double>(width - crop) / 2) + 0.5) *
      scale_x;
  double sum = 0;
  double weights = 0;
  for (std::int64_t i = 0; i < image.height; ++i) {
    for (std::int64_t j = 0; j < image.width; ++j) {
      const auto weight = triangle(i, centre_y, std::max(1.0, scale_y)) *
                          triangle(j, centre_x, std::max(1.0, scale_x));
      sum += weight * image.pixels[static_cast<std::size_t>((i * image.width + j) * 3 + c)];
      weights += weight;
    }
  }
  return sum / weights;
}

TEST(Resample, EqualsItsDefinition) {
  struct Case {
    std::int64_t height, width, resize, crop;
  };
  for (const auto& [height, width, resize, crop] :
       {Case{20, 31, 8, 8}, Case{31, 20, 9, 6}, Case{5, 7, 16, 12}, Case{40, 12, 12, 11},
        Case{1, 1, 4, 4}, Case{3, 50, 7, 7}, Case{13, 13, 12, 1}}) {
    const auto image = varied(height, width);
    const auto planes = resized(image, resize, crop);
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::int64_t y = 0; y < crop; ++y) {
        for (std::int64_t x = 0; x < crop; ++x) {
          const auto actual = planes[static_cast<std::size_t>((c * crop + y) * crop + x)];
          // Half a level is the rounding.
          ASSERT_NEAR(actual, reference(image, resize, crop, c, y, x), 0.501)
              << height << 'x' << width << " to " << resize << ", " << crop << " at " << c << ' '
              << y << ' ' << x;
        }
      }
    }
  }
}

TEST(Resample, TheSameSizeIsACentreCrop) {
  const auto image = varied(6, 9);
  const auto planes = resized(image, 6, 4);
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t y = 0; y < 4; ++y) {
      for (std::size_t x = 0; x < 4; ++x) {
        EXPECT_EQ(planes[(c * 4 + y) * 4 + x], image.pixels[((y + 1) * 9 + x + 2) * 3 + c]);
      }
    }
  }
}

TEST(Resample, PlainStaysPlain) {
  for (const std::uint8_t level : {0, 1, 127, 254, 255}) {
    const RgbImage image{17, 23, std::vector<std::uint8_t>(17 * 23 * 3, level)};
    for (const std::int64_t size : {3, 16, 17, 40}) {
      const auto planes = resized(image, size, size);
      EXPECT_EQ(planes, std::vector<std::uint8_t>(planes.size(), level));
    }
  }
}

TEST(Resample, FineDetailIsAveragedNotAliased) {
  RgbImage stripes{32, 32, {}};
  for (int i = 0; i < 32 * 32 * 3; ++i) {
    stripes.pixels.push_back(static_cast<std::uint8_t>(i / 3 % 2 == 0 ? 0 : 255));
  }
  for (const auto level : resized(stripes, 8, 4)) EXPECT_NEAR(level, 127.5, 1.0);
}

TEST(Resample, ACropCannotExceedTheImage) {
  EXPECT_TRUE(
      contains(error_of([] { resized(varied(4, 4), 4, 5); }), "crop is 5, expected 1 to 4"));
}

}  // namespace
