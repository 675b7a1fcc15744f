#include "data/image_operations.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "data/pixel_arithmetic.h"
#include "data/warp_image.h"

namespace {

using adaact::AffineMap;
using adaact::ImageOperation;
using adaact::ImageShape;
using adaact::kImageOperations;
using adaact::ResampleFilter;

using Pixels = std::vector<std::uint8_t>;

Pixels varied_planes(const ImageShape& shape) {
  Pixels planes;
  std::uint32_t state = 9;
  for (std::int64_t i = 0; i < shape.bytes(); ++i) {
    state = state * 1664525U + 1013904223U;
    planes.push_back(static_cast<std::uint8_t>(state >> 24));
  }
  return planes;
}

Pixels applied(ImageOperation operation, double argument, const ImageShape& shape, const Pixels& in,
               ResampleFilter filter = ResampleFilter::Bilinear) {
  Pixels out(in.size(), 77);
  adaact::apply_operation(operation, argument, filter, shape, in.data(), out.data());
  return out;
}

/// The cubic convolution with a = -1, by its weights.
double cubic_weight(double x) {
  x = std::abs(x);
  if (x < 1.0) return 1.0 - 2.0 * x * x + x * x * x;
  return x < 2.0 ? 4.0 - 8.0 * x + 5.0 * x * x - x * x * x : 0.0;
}

/// The definition: all pixels within reach of where a pixel comes from, weighted; before its fraction is cut off.
double interpolated(const Pixels& planes, const ImageShape& shape, std::int64_t c, double x,
                    double y, ResampleFilter filter) {
  const auto weight = [&](double distance) {
    return filter == ResampleFilter::Bicubic ? cubic_weight(distance)
                                             : std::max(0.0, 1.0 - std::abs(distance));
  };
  double sum = 0.0;
  for (auto row = static_cast<std::int64_t>(std::floor(y)) - 3; row < y + 3; ++row) {
    for (auto column = static_cast<std::int64_t>(std::floor(x)) - 3; column < x + 3; ++column) {
      const auto from_row = std::clamp<std::int64_t>(row, 0, shape.height - 1);
      const auto from_column = std::clamp<std::int64_t>(column, 0, shape.width - 1);
      const auto pixel = planes[static_cast<std::size_t>(
          (c * shape.height + from_row) * shape.width + from_column)];
      sum += weight(static_cast<double>(row) + 0.5 - y) *
             weight(static_cast<double>(column) + 0.5 - x) * pixel;
    }
  }
  return std::clamp(sum, 0.0, 255.0);
}

TEST(ImageOperations, WarpsEqualTheirDefinition) {
  const std::vector<AffineMap> maps{{1, 0, 0, 0, 1, 0},
                                    {1, 0.3, -1.25, 0, 1, 0},
                                    {1, 0, 0.5, -0.27, 1, 3.5},
                                    {0.9, 0.4, -2.0, -0.4, 0.9, 2.0},
                                    {0.3, 0.1, 4.0, 0.2, 0.35, 1.0},
                                    {2.5, 0, -6.0, 0.1, -1.0, 9.0},
                                    {1, 0, 100.0, 0, 1, 0}};
  for (const auto& shape :
       {ImageShape{3, 9, 13}, ImageShape{3, 1, 1}, ImageShape{3, 1, 20}, ImageShape{3, 17, 2}}) {
    const auto in = varied_planes(shape);
    for (const auto filter : {ResampleFilter::Bilinear, ResampleFilter::Bicubic}) {
      for (const auto& map : maps) {
        Pixels out(in.size());
        adaact::warp_image(map, filter, shape, in.data(), out.data());
        for (std::int64_t i = 0; i < shape.bytes(); ++i) {
          const auto c = i / (shape.height * shape.width);
          const auto at_x = static_cast<double>(i % shape.width) + 0.5;
          const auto at_y = static_cast<double>(i / shape.width % shape.height) + 0.5;
          const auto x = map.a * at_x + map.b * at_y + map.c;
          const auto y = map.d * at_x + map.e * at_y + map.f;
          const int actual = out[static_cast<std::size_t>(i)];
          if (x < 0 || y < 0 || x >= static_cast<double>(shape.width) ||
              y >= static_cast<double>(shape.height)) {
            ASSERT_EQ(actual, adaact::outside_level(c));
            continue;
          }
          // Cut off, but for what the sums differ by.
          const auto expected = interpolated(in, shape, c, x, y, filter);
          ASSERT_GE(actual, std::floor(expected - 1e-9));
          ASSERT_LE(actual, std::floor(expected + 1e-9));
        }
      }
    }
  }
}

TEST(ImageOperations, SomeArgumentsChangeNothing) {
  const ImageShape shape{3, 12, 7};
  const auto in = varied_planes(shape);
  for (const auto operation :
       {ImageOperation::Rotate, ImageOperation::ShearX, ImageOperation::ShearY,
        ImageOperation::TranslateX, ImageOperation::TranslateY, ImageOperation::SolarizeAdd}) {
    EXPECT_EQ(applied(operation, 0.0, shape, in), in);
    EXPECT_EQ(applied(operation, 0.0, shape, in, ResampleFilter::Bicubic), in);
  }
  for (const auto operation : {ImageOperation::Color, ImageOperation::Contrast,
                               ImageOperation::Brightness, ImageOperation::Sharpness}) {
    EXPECT_EQ(applied(operation, 1.0, shape, in), in);
  }
  EXPECT_EQ(applied(ImageOperation::Posterize, 8, shape, in), in);
  EXPECT_EQ(applied(ImageOperation::Solarize, 256, shape, in), in);
}

TEST(ImageOperations, LevelsAreChangedOneByOne) {
  const ImageShape shape{3, 1, 2};
  const Pixels in{0, 255, 100, 127, 128, 200};
  EXPECT_EQ(applied(ImageOperation::Invert, 0, shape, in), (Pixels{255, 0, 155, 128, 127, 55}));
  EXPECT_EQ(applied(ImageOperation::Posterize, 0, shape, in), Pixels(6, 0));
  EXPECT_EQ(applied(ImageOperation::Posterize, 2, shape, in), (Pixels{0, 192, 64, 64, 128, 192}));
  EXPECT_EQ(applied(ImageOperation::Solarize, 128, shape, in), (Pixels{0, 0, 100, 127, 127, 55}));
  EXPECT_EQ(applied(ImageOperation::SolarizeAdd, 110, shape, in),
            (Pixels{110, 255, 210, 237, 128, 200}));
  EXPECT_EQ(applied(ImageOperation::Brightness, 0.5, shape, in), (Pixels{0, 127, 50, 63, 64, 100}));
  EXPECT_EQ(applied(ImageOperation::Brightness, 2.0, shape, in),
            (Pixels{0, 255, 200, 254, 255, 255}));
}

TEST(ImageOperations, AutoContrastUsesAllLevelsOfEachChannel) {
  const ImageShape shape{3, 1, 3};
  const Pixels in{10, 20, 30, 7, 7, 7, 0, 128, 255};
  EXPECT_EQ(applied(ImageOperation::AutoContrast, 0, shape, in),
            (Pixels{0, 127, 255, 7, 7, 7, 0, 128, 255}));
}

TEST(ImageOperations, EqualizeMakesLevelsEquallyFrequent) {
  const ImageShape shape{3, 32, 32};
  Pixels in;  // 1024 pixels of 16 levels in a row, in each channel
  for (std::int64_t i = 0; i < shape.bytes(); ++i) {
    in.push_back(static_cast<std::uint8_t>(100 + i % 1024 / 64));
  }
  const auto out = applied(ImageOperation::Equalize, 0, shape, in);
  for (std::size_t i = 0; i < out.size(); ++i) {
    // (1024 - 64) / 255 = 3 pixels a level.
    EXPECT_EQ(out[i], std::min((1 + (in[i] - 100) * 64) / 3, 255));
  }
}

TEST(ImageOperations, SharpnessLeavesTheBorder) {
  const ImageShape shape{3, 3, 4};
  const auto in = varied_planes(shape);
  const auto out = applied(ImageOperation::Sharpness, 0.0, shape, in);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto x = i % 4;
    const auto y = i / 4 % 3;
    if (y != 1 || x == 0 || x == 3) {
      EXPECT_EQ(out[i], in[i]);
      continue;
    }
    double sum = 4.0 * in[i];
    for (const auto row : {i - 4, i, i + 4}) sum += in[row - 1] + in[row] + in[row + 1];
    EXPECT_EQ(out[i], std::floor(sum / 13 + 0.5));
  }
}

TEST(ImageOperations, ImagesOfOnePixelAreImages) {
  for (const auto& shape : {ImageShape{3, 1, 1}, ImageShape{3, 1, 300}, ImageShape{3, 2, 2}}) {
    const auto in = varied_planes(shape);
    for (std::uint32_t i = 0; i < kImageOperations; ++i) {
      for (const double argument : {-0.3, 0.0, 0.45, 1.9, 4.0}) {
        const auto operation = static_cast<ImageOperation>(i);
        if (operation == ImageOperation::Posterize && argument < 0) continue;
        EXPECT_EQ(applied(operation, argument, shape, in, ResampleFilter::Bicubic).size(),
                  in.size());
      }
    }
  }
}

TEST(ImageOperations, FifteenDigitsAreThoseOfPrinting) {
  for (int degrees = -300; degrees <= 300; ++degrees) {
    for (const double x : {std::cos(degrees * 0.00173), std::sin(degrees * 0.00173)}) {
      char text[40];
      std::snprintf(text, sizeof text, "%.15f", x);
      EXPECT_EQ(adaact::rounded_to_15_digits(x), std::strtod(text, nullptr)) << text;
    }
  }
}

}  // namespace
