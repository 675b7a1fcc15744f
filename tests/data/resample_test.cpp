#include "data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace {

using adaact::PixelView;
using adaact::ResampleFilter;
using adaact::resize_and_crop;
using adaact::resize_image;
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

/// The filters: a triangle, and the cubic convolution with a = -½.
double weight_at(ResampleFilter filter, double x) {
  x = std::abs(x);
  if (filter == ResampleFilter::Bilinear) return std::max(0.0, 1.0 - x);
  if (x < 1.0) return (1.5 * x - 2.5) * x * x + 1.0;
  return x < 2.0 ? ((x - 5.0) * x + 8.0) * x * -0.5 + 2.0 : 0.0;
}

/// The definition along one axis: for output `i` of `out` the weighted mean of all of `in`, with weights of 22 bits
/// behind the point, rounded.
std::uint8_t scaled(const std::vector<std::uint8_t>& in, std::int64_t out, std::int64_t i,
                    ResampleFilter filter) {
  const auto scale = static_cast<double>(in.size()) / static_cast<double>(out);
  const auto centre = (static_cast<double>(i) + 0.5) * scale;
  const auto weight = [&](std::size_t j) {
    return weight_at(filter, (static_cast<double>(j) + 0.5 - centre) / std::max(1.0, scale));
  };
  double weights = 0.0;
  for (std::size_t j = 0; j < in.size(); ++j) weights += weight(j);
  std::int64_t sum = std::int64_t{1} << 21;
  for (std::size_t j = 0; j < in.size(); ++j) {
    sum += std::llround(weight(j) / weights * (1 << 22)) * in[j];
  }
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> 22, 0, 255));
}

/// All of the image, columns first, as planes (3, height, width).
std::vector<std::uint8_t> reference(const RgbImage& image, std::int64_t height, std::int64_t width,
                                    ResampleFilter filter) {
  std::vector<std::uint8_t> planes;
  for (std::size_t c = 0; c < 3; ++c) {
    std::vector<std::vector<std::uint8_t>> columns(static_cast<std::size_t>(width));
    for (std::int64_t y = 0; y < image.height; ++y) {
      std::vector<std::uint8_t> row;
      for (std::int64_t x = 0; x < image.width; ++x) {
        row.push_back(image.pixels[static_cast<std::size_t>((y * image.width + x) * 3) + c]);
      }
      for (std::int64_t x = 0; x < width; ++x) {
        columns[static_cast<std::size_t>(x)].push_back(scaled(row, width, x, filter));
      }
    }
    for (std::int64_t y = 0; y < height; ++y) {
      for (const auto& column : columns) planes.push_back(scaled(column, height, y, filter));
    }
  }
  return planes;
}

std::int64_t even_half(std::int64_t number) {
  return std::llrint(static_cast<double>(number) / 2.0);
}

TEST(Resample, EqualsItsDefinition) {
  struct Case {
    std::int64_t height, width, resize, crop;
  };
  for (const auto& [height, width, resize, crop] :
       {Case{20, 31, 8, 8}, Case{31, 20, 9, 6}, Case{5, 7, 16, 12}, Case{40, 12, 12, 11},
        Case{1, 1, 4, 4}, Case{3, 50, 7, 7}, Case{13, 13, 12, 1}, Case{1, 300, 5, 3}}) {
    const auto image = varied(height, width);
    const auto planes = resized(image, resize, crop);
    const auto shorter = std::min(height, width);
    const auto whole_height = resize * height / shorter;
    const auto whole_width = resize * width / shorter;
    const auto whole = reference(image, whole_height, whole_width, ResampleFilter::Bilinear);
    const auto top = even_half(whole_height - crop);
    const auto left = even_half(whole_width - crop);
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::int64_t y = 0; y < crop; ++y) {
        for (std::int64_t x = 0; x < crop; ++x) {
          ASSERT_EQ(planes[static_cast<std::size_t>((c * crop + y) * crop + x)],
                    whole[static_cast<std::size_t>((c * whole_height + top + y) * whole_width +
                                                   left + x)])
              << height << 'x' << width << " to " << resize << ", " << crop << " at " << c << ' '
              << y << ' ' << x;
        }
      }
    }
  }
}

TEST(Resample, AnySizeBecomesAnyOther) {
  struct Case {
    std::int64_t height, width, new_height, new_width;
  };
  for (const auto filter : {ResampleFilter::Bilinear, ResampleFilter::Bicubic}) {
    for (const auto& [height, width, new_height, new_width] :
         {Case{20, 31, 8, 9}, Case{5, 7, 16, 11}, Case{1, 1, 6, 6}, Case{300, 1, 7, 7},
          Case{1, 300, 7, 7}, Case{300, 2, 1, 1}, Case{16, 16, 16, 16}, Case{33, 47, 17, 80}}) {
      const auto image = varied(height, width);
      const auto expected = reference(image, new_height, new_width, filter);
      std::vector<std::uint8_t> planes(expected.size());
      resize_image({image.pixels.data(), height, width, 3}, filter, /*mirrored=*/false, new_height,
                   new_width, planes.data());
      EXPECT_EQ(planes, expected) << height << 'x' << width;
    }
  }
}

TEST(Resample, MirroredIsMirrored) {
  const auto image = varied(19, 23);
  constexpr std::int64_t kSide = 11;
  std::vector<std::uint8_t> planes(3 * kSide * kSide);
  auto mirrored = planes;
  const PixelView view{image.pixels.data(), 19, 23, 3};
  resize_image(view, ResampleFilter::Bicubic, false, kSide, kSide, planes.data());
  resize_image(view, ResampleFilter::Bicubic, true, kSide, kSide, mirrored.data());
  for (std::size_t row = 0; row < planes.size(); row += kSide) {
    std::reverse(planes.begin() + static_cast<std::ptrdiff_t>(row),
                 planes.begin() + static_cast<std::ptrdiff_t>(row + kSide));
  }
  EXPECT_EQ(planes, mirrored);
}

TEST(Resample, APlaneIsScaledAsAColourIs) {
  const auto image = varied(21, 17);
  std::vector<std::uint8_t> green;
  for (std::size_t i = 1; i < image.pixels.size(); i += 3) green.push_back(image.pixels[i]);
  std::vector<std::uint8_t> planes(3 * 8 * 8);
  std::vector<std::uint8_t> plane(8 * 8);
  resize_image({image.pixels.data(), 21, 17, 3}, ResampleFilter::Bicubic, false, 8, 8,
               planes.data());
  resize_image({green.data(), 21, 17, 1}, ResampleFilter::Bicubic, false, 8, 8, plane.data());
  EXPECT_EQ(plane, std::vector<std::uint8_t>(planes.begin() + 64, planes.begin() + 128));
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
