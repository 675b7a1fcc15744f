#include "data/resized_crop.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace {

using adaact::draw_resized_crop;
using adaact::ImagePart;
using adaact::PixelBox;
using adaact::ResampleFilter;
using adaact::ResizedCropOptions;

bool operator==(const PixelBox& a, const PixelBox& b) {
  return a.top == b.top && a.left == b.left && a.height == b.height && a.width == b.width;
}

TEST(ResizedCrop, SharesAndRatiosAreThoseAskedFor) {
  const ResizedCropOptions options;
  constexpr double kHeight = 375;
  constexpr double kWidth = 500;
  int bicubic = 0;
  constexpr int kDraws = 4000;
  for (std::uint32_t sample = 0; sample < kDraws; ++sample) {
    const auto part = draw_resized_crop(options, 1, 2, sample, 375, 500);
    const auto height = static_cast<double>(part.box.height);
    const auto width = static_cast<double>(part.box.width);
    // A side is rounded by half a pixel.
    EXPECT_GE((height + 0.5) * (width + 0.5), 0.08 * kHeight * kWidth);
    EXPECT_LE((width - 0.5) / (height + 0.5), 4.0 / 3.0);
    EXPECT_GE((width + 0.5) / (height - 0.5), 3.0 / 4.0);
    EXPECT_GE(part.box.top, 0);
    EXPECT_GE(part.box.left, 0);
    EXPECT_LE(part.box.top + part.box.height, 375);
    EXPECT_LE(part.box.left + part.box.width, 500);
    EXPECT_FALSE(part.mirrored);
    bicubic += part.filter == ResampleFilter::Bicubic ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(bicubic) / kDraws, 0.5, 0.03);
}

TEST(ResizedCrop, SharesAreUniformAndRatiosLogUniform) {
  const ResizedCropOptions squares{0.2, 1.0, 1.0, 1.0};
  const ResizedCropOptions shapes{0.1, 0.1, 0.75, 4.0 / 3.0};
  constexpr int kDraws = 4000;
  double sum_of_shares = 0;
  double sum_of_logarithms = 0;
  double squares_of_logarithms = 0;
  for (std::uint32_t sample = 0; sample < kDraws; ++sample) {
    const auto square = draw_resized_crop(squares, 1, 2, sample, 1000, 1000).box;
    EXPECT_EQ(square.height, square.width);
    sum_of_shares += static_cast<double>(square.height * square.width) / 1e6;
    const auto shape = draw_resized_crop(shapes, 1, 2, sample, 1000, 1000).box;
    const auto logarithm =
        std::log(static_cast<double>(shape.width) / static_cast<double>(shape.height));
    sum_of_logarithms += logarithm;
    squares_of_logarithms += logarithm * logarithm;
  }
  EXPECT_NEAR(sum_of_shares / kDraws, 0.6, 0.012);
  EXPECT_NEAR(sum_of_logarithms / kDraws, 0.0, 0.01);
  EXPECT_NEAR(squares_of_logarithms / kDraws, std::pow(2 * std::log(4.0 / 3.0), 2) / 12, 0.002);
}

TEST(ResizedCrop, PlacesAreUniform) {
  std::array<int, 4> quarters{};
  const ResizedCropOptions options{0.25, 0.25, 1.0, 1.0};  // half of each side
  for (std::uint32_t sample = 0; sample < 4000; ++sample) {
    const auto box = draw_resized_crop(options, 5, 0, sample, 14, 14).box;
    ASSERT_EQ(box.height, 7);
    ASSERT_EQ(box.width, 7);
    ++quarters.at(static_cast<std::size_t>(2 * (box.top / 4) + box.left / 4));
  }
  for (const auto count : quarters) EXPECT_NEAR(count, 1000, 110);
}

TEST(ResizedCrop, WhatNeverFitsIsTheMiddle) {
  const ResizedCropOptions options;
  EXPECT_TRUE(draw_resized_crop(options, 1, 1, 1, 4000, 3).box == (PixelBox{1998, 0, 4, 3}));
  EXPECT_TRUE(draw_resized_crop(options, 1, 1, 1, 3, 4000).box == (PixelBox{0, 1998, 3, 4}));
  EXPECT_TRUE(draw_resized_crop(options, 1, 1, 1, 1, 1).box == (PixelBox{0, 0, 1, 1}));
  EXPECT_TRUE(draw_resized_crop({0.5, 1.0, 1.0, 1.0}, 1, 1, 1, 1, 9).box == (PixelBox{0, 4, 1, 1}));
}

TEST(ResizedCrop, DependsOnSeedEpochAndSample) {
  const auto draw = [](std::uint64_t seed, std::uint32_t epoch, std::uint32_t sample) {
    return draw_resized_crop({}, seed, epoch, sample, 375, 500).box;
  };
  EXPECT_TRUE(draw(1, 2, 3) == draw(1, 2, 3));
  EXPECT_FALSE(draw(1, 2, 3) == draw(2, 2, 3));
  EXPECT_FALSE(draw(1, 2, 3) == draw(1, 3, 3));
  EXPECT_FALSE(draw(1, 2, 3) == draw(1, 2, 4));
}

}  // namespace
