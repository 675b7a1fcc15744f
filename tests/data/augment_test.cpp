#include <array>
#include <cmath>

#include <adaact/data/augment.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/tolerance.h"

namespace {

using adaact::augment_reference;
using adaact::AugmentDraw;
using adaact::Augmenter;
using adaact::AugmentOptions;
using adaact::draw_augment;
using adaact::ImageLayout;
using adaact::ImageShape;
using adaact::Normalization;
using adaact::testing::bit_identical;
using adaact::testing::contains;
using adaact::testing::error_of;

Normalization normalization_for(std::int64_t channels) {
  Normalization normalization;
  for (std::int64_t c = 0; c < channels; ++c) {
    normalization.mean.push_back(0.4914F - 0.02F * static_cast<float>(c));
    normalization.std.push_back(0.2470F + 0.01F * static_cast<float>(c));
  }
  return normalization;
}

torch::Tensor random_image(const ImageShape& shape) {
  return torch::randint(0, 256, {shape.channels, shape.height, shape.width}, torch::kByte);
}

/// What the augmenter writes, as (C, H, W) whatever its layout.
torch::Tensor augmented(const Augmenter& augmenter, const torch::Tensor& image,
                        const AugmentDraw& draw) {
  const auto batch = image.unsqueeze(0);
  auto out = torch::full(batch.sizes(), NAN);
  if (augmenter.layout() == ImageLayout::ChannelsLast) {
    out = out.contiguous(torch::MemoryFormat::ChannelsLast);
  }
  augmenter.apply(image.data_ptr<std::uint8_t>(), draw, out.data_ptr<float>());
  return out[0];
}

class AugmentShapes : public ::testing::TestWithParam<std::array<std::int64_t, 4>> {};

TEST_P(AugmentShapes, EqualsTheReferenceBitForBit) {
  const auto [channels, height, width, padding] = GetParam();
  const ImageShape shape{channels, height, width};
  const AugmentOptions options{padding, 0.5};
  const auto normalization = normalization_for(channels);
  const Augmenter planes(shape, normalization, options);
  const Augmenter channels_last(shape, normalization, options, ImageLayout::ChannelsLast);
  torch::manual_seed(1);
  for (std::uint32_t sample = 0; sample < 300; ++sample) {
    const auto image = random_image(shape);
    const auto draw = draw_augment(options, 7, 2, sample);
    const auto expected = augment_reference(image, normalization, options, draw);
    ASSERT_TRUE(bit_identical(augmented(planes, image, draw), expected)) << sample;
    ASSERT_TRUE(bit_identical(augmented(channels_last, image, draw), expected)) << sample;
  }
}

INSTANTIATE_TEST_SUITE_P(Augment, AugmentShapes,
                         ::testing::Values(std::array<std::int64_t, 4>{3, 32, 32, 4},
                                           std::array<std::int64_t, 4>{1, 28, 28, 4},
                                           std::array<std::int64_t, 4>{3, 7, 5, 2},
                                           std::array<std::int64_t, 4>{2, 5, 9, 0},
                                           std::array<std::int64_t, 4>{4, 3, 2, 6},
                                           std::array<std::int64_t, 4>{1, 1, 1, 1}));

TEST(Augment, EveryCropIsRight) {
  const ImageShape shape{3, 6, 6};
  const AugmentOptions options{4, 0.5};
  const auto normalization = normalization_for(3);
  const Augmenter augmenter(shape, normalization, options);
  const auto image = random_image(shape);
  for (std::int32_t top = 0; top <= 8; ++top) {
    for (std::int32_t left = 0; left <= 8; ++left) {
      for (const bool flip : {false, true}) {
        const AugmentDraw draw{top, left, flip};
        EXPECT_TRUE(bit_identical(augmented(augmenter, image, draw),
                                  augment_reference(image, normalization, options, draw)))
            << top << ' ' << left << ' ' << flip;
      }
    }
  }
}

TEST(Augment, PadsWithBlackNotWithTheMean) {
  const ImageShape shape{1, 4, 4};
  const auto normalization = normalization_for(1);
  const Augmenter augmenter(shape, normalization, {4, 0.0});
  const auto out =
      augmented(augmenter, torch::full({1, 4, 4}, 255, torch::kByte), AugmentDraw{0, 4, false});
  const auto black = (0.0F - normalization.mean[0]) / normalization.std[0];
  EXPECT_TRUE(torch::all(out == black).item<bool>());
}

TEST(Augment, EvaluationOnlyNormalizes) {
  const ImageShape shape{3, 5, 5};
  const auto normalization = normalization_for(3);
  const auto options = AugmentOptions::evaluation();
  const Augmenter augmenter(shape, normalization, options);
  const auto image = random_image(shape);
  const auto draw = draw_augment(options, 1, 2, 3);
  const auto mean = torch::tensor(normalization.mean).view({3, 1, 1});
  const auto std = torch::tensor(normalization.std).view({3, 1, 1});
  EXPECT_TRUE(bit_identical(augmented(augmenter, image, draw),
                            (image.to(torch::kFloat) / 255 - mean) / std));
}

TEST(Augment, CropsAndFlipsAreUniformAndIndependent) {
  const auto options = AugmentOptions::training();
  constexpr int kSamples = 81 * 2 * 300;
  std::array<int, 162> counts{};
  for (std::uint32_t sample = 0; sample < kSamples; ++sample) {
    const auto draw = draw_augment(options, 3, sample % 5, sample);
    ++counts.at(static_cast<std::size_t>((draw.top * 9 + draw.left) * 2 + (draw.flip ? 1 : 0)));
  }
  double chi_square = 0;
  for (const auto count : counts) chi_square += std::pow(count - 300.0, 2) / 300.0;
  EXPECT_LT(chi_square, 222);  // 161 degrees of freedom: exceeded by chance once in 1000 seeds
}

TEST(Augment, DrawsDependOnSeedEpochAndSample) {
  const auto options = AugmentOptions::training();
  const auto differing = [&](std::uint64_t seed, std::uint32_t epoch, std::uint32_t shift) {
    int count = 0;
    for (std::uint32_t sample = 0; sample < 200; ++sample) {
      const auto a = draw_augment(options, 3, 1, sample);
      const auto b = draw_augment(options, seed, epoch, sample + shift);
      count += a.top != b.top || a.left != b.left || a.flip != b.flip ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(differing(3, 1, 0), 0);
  EXPECT_GT(differing(4, 1, 0), 180);
  EXPECT_GT(differing(3, 2, 0), 180);
  EXPECT_GT(differing(3, 1, 1), 180);
}

TEST(Augment, OneOptionDoesNotChangeWhatAnotherDraws) {
  for (std::uint32_t sample = 0; sample < 100; ++sample) {
    const auto both = draw_augment({4, 0.5}, 1, 1, sample);
    EXPECT_EQ(draw_augment({0, 0.5}, 1, 1, sample).flip, both.flip);
    EXPECT_EQ(draw_augment({4, 0.0}, 1, 1, sample).top, both.top);
    EXPECT_EQ(draw_augment({4, 0.0}, 1, 1, sample).left, both.left);
    EXPECT_FALSE(draw_augment({4, 0.0}, 1, 1, sample).flip);
    EXPECT_TRUE(draw_augment({4, 1.0}, 1, 1, sample).flip);
  }
}

TEST(Augment, BadOptionsSayWhatWasExpected) {
  const auto error = [](const Normalization& normalization, const AugmentOptions& options) {
    return error_of([&] { Augmenter({3, 4, 4}, normalization, options); });
  };
  EXPECT_TRUE(contains(error(normalization_for(1), {}), "1 means and 1 standard deviations"));
  EXPECT_TRUE(contains(error(normalization_for(3), {-1, 0}), "crop_padding is -1"));
  EXPECT_TRUE(contains(error(normalization_for(3), {4, 1.5}), "flip_probability is 1.5"));
  AugmentOptions options;
  options.erase_probability = -0.5;
  EXPECT_TRUE(contains(error(normalization_for(3), options), "erase_probability is -0.5"));
  options = {};
  options.resized_crop = {0.5, 0.25, 1.0, 1.0};
  EXPECT_TRUE(contains(error(normalization_for(3), options), "shares from 0.5 to 0.25, expected"));
  options.resized_crop = {0.5, 1.0, 0.0, 1.0};
  EXPECT_TRUE(contains(error(normalization_for(3), options), "ratios from 0 to 1, expected"));
  options.resized_crop = {0.5, 1.0, 1.0, 1e308};
  EXPECT_TRUE(contains(error(normalization_for(3), options),
                       "ratios from 1 to 1e+308, expected ascending ones from 0.001 to 1000"));
  options = {};
  options.rand_augment = {-1, 0.5, 7.0, 0.5};
  EXPECT_TRUE(contains(error(normalization_for(3), options), "does -1 operations, expected 0 to"));
  options.rand_augment = {2, 0.5, 11.0, 0.5};
  EXPECT_TRUE(contains(error(normalization_for(3), options), "magnitude is 11, expected [0, 10]"));
  options.rand_augment = {2, 0.5, 7.0, -1.0};
  EXPECT_TRUE(contains(error(normalization_for(3), options), "magnitude_std is -1, expected >= 0"));
  options.rand_augment.emplace();
  EXPECT_TRUE(contains(error_of([&] {
                         Augmenter({1, 4, 4}, normalization_for(1), options);
                       }),
                       "rand_augment is for images of 3 channels, these have 1"));
  auto flat = normalization_for(3);
  flat.std[1] = 0;
  EXPECT_TRUE(contains(error(flat, {}), "std of channel 1 is 0, expected > 0"));
}

}  // namespace
