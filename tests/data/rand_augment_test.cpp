#include "data/rand_augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace {

using adaact::argument_at;
using adaact::draw_operation;
using adaact::ImageOperation;
using adaact::ImageShape;
using adaact::kImageOperations;
using adaact::RandAugmentOptions;
using adaact::ResampleFilter;

TEST(RandAugment, OperationsAndFiltersAreEquallyFrequentAndSignsToo) {
  constexpr int kOfEach = 400;
  std::array<int, kImageOperations> counts{};
  int applied = 0;
  int bicubic = 0;
  int to_the_left = 0;
  for (std::uint32_t sample = 0; sample < kOfEach * kImageOperations; ++sample) {
    const auto draw = draw_operation({}, 3, 1, sample, sample % 2);
    ++counts.at(static_cast<std::size_t>(draw.operation));
    applied += draw.applied ? 1 : 0;
    bicubic += draw.filter == ResampleFilter::Bicubic ? 1 : 0;
    const bool turned = draw.operation == ImageOperation::Rotate && draw.argument > 0;
    to_the_left += turned ? 1 : 0;
  }
  double chi_square = 0;
  for (const auto count : counts) chi_square += std::pow(count - kOfEach, 2) / kOfEach;
  EXPECT_LT(chi_square, 36.1);  // 14 degrees of freedom: exceeded by chance once in 1000 seeds
  EXPECT_NEAR(applied, 3000, 130);
  EXPECT_NEAR(bicubic, 3000, 130);
  EXPECT_NEAR(to_the_left, 200, 45);
}

TEST(RandAugment, MagnitudesAreNormalAndStayInTheirRange) {
  double sum = 0;
  double squares = 0;
  int rotations = 0;
  for (std::uint32_t sample = 0; sample < 40000; ++sample) {
    const auto draw = draw_operation({}, 3, 1, sample, 0);
    if (draw.operation != ImageOperation::Rotate) continue;
    const auto magnitude = std::abs(draw.argument) / 3.0;
    sum += magnitude;
    squares += std::pow(magnitude - 7.0, 2);
    ++rotations;
  }
  EXPECT_NEAR(sum / rotations, 7.0, 0.04);
  EXPECT_NEAR(std::sqrt(squares / rotations), 0.5, 0.03);
  RandAugmentOptions wild;
  wild.magnitude_std = 100;
  for (std::uint32_t sample = 0; sample < 2000; ++sample) {
    const auto draw = draw_operation(wild, 3, 1, sample, 0);
    const bool turns = draw.operation == ImageOperation::Rotate;
    EXPECT_LE(std::abs(draw.argument), turns ? 30.0 : 256.0);
  }
}

TEST(RandAugment, StrongestAndWeakest) {
  EXPECT_EQ(argument_at(ImageOperation::Posterize, 10, 1), 0);
  EXPECT_EQ(argument_at(ImageOperation::Posterize, 0, 1), 4);
  EXPECT_EQ(argument_at(ImageOperation::Solarize, 10, 1), 0);
  EXPECT_EQ(argument_at(ImageOperation::Solarize, 0, 1), 256);
  EXPECT_EQ(argument_at(ImageOperation::SolarizeAdd, 10, 1), 110);
  EXPECT_EQ(argument_at(ImageOperation::Color, 10, -1), 0.1);
  EXPECT_EQ(argument_at(ImageOperation::Color, 0, -1), 1.0);
  EXPECT_EQ(argument_at(ImageOperation::Sharpness, 10, 1), 1.9);
}

TEST(RandAugment, OneOptionDoesNotChangeWhatAnotherDraws) {
  RandAugmentOptions other;
  other.probability = 1.0;
  other.magnitude = 3.0;
  other.operations = 9;
  for (std::uint32_t sample = 0; sample < 100; ++sample) {
    const auto one = draw_operation({}, 1, 1, sample, 1);
    const auto two = draw_operation(other, 1, 1, sample, 1);
    EXPECT_EQ(one.operation, two.operation);
    EXPECT_EQ(one.filter, two.filter);
    EXPECT_TRUE(two.applied);
    EXPECT_EQ(one.argument < 0, two.argument < 0);
  }
}

TEST(RandAugment, DoesWhatIsDrawnInTurn) {
  const ImageShape shape{3, 20, 17};
  std::vector<std::uint8_t> image;
  for (std::int64_t i = 0; i < shape.bytes(); ++i) {
    image.push_back(static_cast<std::uint8_t>(i * 37 + i / 7));
  }
  RandAugmentOptions options;
  options.operations = 3;
  int changed = 0;
  for (std::uint32_t sample = 0; sample < 50; ++sample) {
    auto expected = image;
    for (std::uint32_t place = 0; place < 3; ++place) {
      const auto draw = draw_operation(options, 4, 2, sample, place);
      if (!draw.applied) continue;
      const auto before = expected;
      adaact::apply_operation(draw.operation, draw.argument, draw.filter, shape, before.data(),
                              expected.data());
    }
    auto actual = image;
    std::vector<std::uint8_t> scratch(image.size());
    adaact::rand_augment(options, 4, 2, sample, shape, actual.data(), scratch.data());
    EXPECT_EQ(actual, expected);
    changed += actual != image ? 1 : 0;
  }
  EXPECT_GT(changed, 30);
}

}  // namespace
