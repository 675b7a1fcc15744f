#include "data/random_erasing.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace {

using adaact::draw_erasing;
using adaact::erase_randomly;
using adaact::ImageLayout;
using adaact::ImageShape;

TEST(RandomErasing, RectanglesAreThoseAskedFor) {
  int erased = 0;
  constexpr int kDraws = 4000;
  for (std::uint32_t sample = 0; sample < kDraws; ++sample) {
    const auto box = draw_erasing(0.25, 1, 2, sample, 224, 224);
    if (box.height == 0) continue;
    ++erased;
    const auto height = static_cast<double>(box.height);
    const auto width = static_cast<double>(box.width);
    EXPECT_GE((height + 0.5) * (width + 0.5), 0.02 * 224 * 224);
    EXPECT_LE((height - 0.5) * (width - 0.5), 224 * 224 / 3.0);
    EXPECT_GE((width + 0.5) / (height - 0.5), 0.3);
    EXPECT_LE((width - 0.5) / (height + 0.5), 1 / 0.3);
    EXPECT_LE(box.top + box.height, 224);
    EXPECT_LE(box.left + box.width, 224);
    EXPECT_LT(box.height, 224);
    EXPECT_LT(box.width, 224);
  }
  EXPECT_NEAR(erased, kDraws / 4, 110);
}

TEST(RandomErasing, ImagesOfOnePixelStay) {
  for (std::uint32_t sample = 0; sample < 100; ++sample) {
    EXPECT_EQ(draw_erasing(1.0, 1, 2, sample, 1, 1).height, 0);
    EXPECT_EQ(draw_erasing(0.0, 1, 2, sample, 224, 224).height, 0);
  }
}

TEST(RandomErasing, OnlyTheRectangleBecomesNoise) {
  const ImageShape shape{3, 60, 50};
  double sum = 0;
  double squares = 0;
  double count = 0;
  for (std::uint32_t sample = 0; sample < 40; ++sample) {
    const auto box = draw_erasing(1.0, 1, 2, sample, shape.height, shape.width);
    std::vector<float> image(static_cast<std::size_t>(shape.bytes()), 99.0F);
    erase_randomly(1.0, 1, 2, sample, shape, ImageLayout::Planes, image.data());
    for (std::int64_t i = 0; i < shape.bytes(); ++i) {
      const auto x = i % shape.width - box.left;
      const auto y = i / shape.width % shape.height - box.top;
      const auto value = static_cast<double>(image[static_cast<std::size_t>(i)]);
      if (x < 0 || y < 0 || x >= box.width || y >= box.height) {
        ASSERT_EQ(value, 99.0);
        continue;
      }
      sum += value;
      squares += value * value;
      ++count;
    }
  }
  EXPECT_NEAR(sum / count, 0.0, 0.03);
  EXPECT_NEAR(squares / count, 1.0, 0.04);
}

TEST(RandomErasing, ChannelsLastIsALayoutOnly) {
  const ImageShape shape{3, 20, 30};
  for (std::uint32_t sample = 0; sample < 20; ++sample) {
    std::vector<float> planes(static_cast<std::size_t>(shape.bytes()));
    auto channels_last = planes;
    erase_randomly(1.0, 1, 2, sample, shape, ImageLayout::Planes, planes.data());
    erase_randomly(1.0, 1, 2, sample, shape, ImageLayout::ChannelsLast, channels_last.data());
    for (std::size_t i = 0; i < 600; ++i) {
      for (std::size_t c = 0; c < 3; ++c) {
        ASSERT_EQ(planes[600 * c + i], channels_last[3 * i + c]);
      }
    }
  }
}

}  // namespace
