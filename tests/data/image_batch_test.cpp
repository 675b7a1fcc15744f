// The steps that a GPU takes for a whole batch, taken on the CPU, against those of the Loader: the same bits.

#include <cstdint>
#include <vector>

#include <adaact/data/augment.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "data/image_batch_cases.h"
#include "data/mix_images.h"
#include "data/random_erasing.h"
#include "data/resample.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::AugmentOptions;
using adaact::ImageBatchPlan;
using adaact::ImageLayout;
using adaact::ImageOperation;
using adaact::MixDraw;
using adaact::ResampleFilter;

torch::Tensor as_bytes(const torch::Tensor& levels) { return levels.to(torch::kByte); }

TEST(ImageBatch, EveryOperationGivesTheBitsOfThatForOneImage) {
  const auto maker = adaact::image_batch_maker_reference(same_levels_format());
  for (std::uint32_t number = 0; number < adaact::kImageOperations; ++number) {
    const auto operation = static_cast<ImageOperation>(number);
    for (const auto filter : {ResampleFilter::Bilinear, ResampleFilter::Bicubic}) {
      const auto plan = one_operation(operation, filter, 8);
      const auto bytes = patchy_bytes(8);
      const auto actual = as_bytes(maker->finish(bytes.clone(), plan));
      for (std::int64_t i = 0; i < 8; ++i) {
        const auto& of_image = plan.operations[static_cast<std::size_t>(i)];
        auto expected = bytes[i].clone();
        if (of_image.applied) {
          adaact::apply_operation(operation, of_image.argument, filter, kBatchShape,
                                  bytes[i].data_ptr<std::uint8_t>(),
                                  expected.data_ptr<std::uint8_t>());
        }
        EXPECT_TRUE(bit_identical(actual[i], expected))
            << "operation " << number << ", image " << i;
      }
    }
  }
}

TEST(ImageBatch, PlacesOfRandAugmentComeInTurn) {
  AugmentOptions options;
  options.rand_augment.emplace();
  options.rand_augment->operations = 3;
  const auto plan = plan_images(options, kBatchShape, kBatchSeed, kBatchEpoch, sample_numbers(40));
  ASSERT_EQ(plan.places(), 3);
  const auto bytes = patchy_bytes(40);
  const auto actual = as_bytes(
      adaact::image_batch_maker_reference(same_levels_format())->finish(bytes.clone(), plan));
  std::vector<std::uint8_t> scratch(static_cast<std::size_t>(kBatchShape.bytes()));
  for (std::int64_t i = 0; i < 40; ++i) {
    auto expected = bytes[i].clone();
    adaact::rand_augment(*options.rand_augment, kBatchSeed, kBatchEpoch,
                         plan.samples[static_cast<std::size_t>(i)], kBatchShape,
                         expected.data_ptr<std::uint8_t>(), scratch.data());
    EXPECT_TRUE(bit_identical(actual[i], expected)) << "image " << i;
  }
}

/// Mixes neighbours as the Loader does.
torch::Tensor mixed_in_pairs(const torch::Tensor& bytes, const MixDraw& draw) {
  auto result = bytes.clone();
  for (std::int64_t i = 0; i + 1 < bytes.size(0); i += 2) {
    adaact::mix_pair(draw, kBatchShape, result[i].data_ptr<std::uint8_t>(),
                     result[i + 1].data_ptr<std::uint8_t>());
  }
  return result;
}

TEST(ImageBatch, NeighboursAreMixedAndTheLastOfAnOddNumberIsNot) {
  const auto maker = adaact::image_batch_maker_reference(same_levels_format());
  for (const auto& options : {adaact::MixOptions{0.8, 0.0}, adaact::MixOptions{0.0, 1.0}}) {
    for (const std::int64_t images : {1, 2, 5, 8}) {
      ImageBatchPlan plan;
      plan.samples = sample_numbers(images);
      plan.mixed = true;
      plan.mix = adaact::draw_mix(options, kBatchSeed, kBatchEpoch, 4, kBatchShape.height,
                                  kBatchShape.width);
      const auto bytes = patchy_bytes(images);
      EXPECT_TRUE(bit_identical(as_bytes(maker->finish(bytes.clone(), plan)),
                                mixed_in_pairs(bytes, plan.mix)));
    }
  }
}

TEST(ImageBatch, ValuesAreNormalisedErasedRoundedAndLaidOut) {
  AugmentOptions options;
  options.erase_probability = 0.6;
  const auto bytes = patchy_bytes(12);
  const auto plan = plan_images(options, kBatchShape, kBatchSeed, kBatchEpoch, sample_numbers(12));
  const adaact::Augmenter normalizer(kBatchShape, {{.4F, .5F, .45F}, {.2F, .25F, .22F}}, {});
  auto expected = torch::empty({12, 3, kBatchShape.height, kBatchShape.width});
  for (std::int64_t i = 0; i < 12; ++i) {
    auto* image = expected[i].data_ptr<float>();
    normalizer.apply(bytes[i].data_ptr<std::uint8_t>(), {}, image);
    adaact::erase_randomly(options.erase_probability, kBatchSeed, kBatchEpoch,
                           plan.samples[static_cast<std::size_t>(i)], kBatchShape,
                           ImageLayout::Planes, image);
  }
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    for (const auto layout : {ImageLayout::Planes, ImageLayout::ChannelsLast}) {
      const auto actual = adaact::image_batch_maker_reference(batch_format(type, layout))
                              ->finish(bytes.clone(), plan);
      const auto format = layout == ImageLayout::Planes ? torch::MemoryFormat::Contiguous
                                                        : torch::MemoryFormat::ChannelsLast;
      EXPECT_TRUE(actual.is_contiguous(format));
      EXPECT_TRUE(bit_identical(actual.contiguous(), expected.to(type)));
    }
  }
}

TEST(ImageBatch, PartsAreScaledToTheBitsOfThoseOfOneImage) {
  const ScaledSources sources;
  const auto count = sources.count();
  const auto images =
      torch::zeros({count + 1, 3, kBatchShape.height, kBatchShape.width}, torch::kByte);
  adaact::image_batch_maker_reference(batch_format())
      ->scale(torch::cat(sources.pixels), sources.plans, images);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& plan = sources.plans[static_cast<std::size_t>(i)];
    const auto expected = torch::empty({3, kBatchShape.height, kBatchShape.width}, torch::kByte);
    adaact::resize_image({sources.pixels[static_cast<std::size_t>(i)].data_ptr<std::uint8_t>(),
                          plan.height, plan.width, 3},
                         plan.filter, plan.mirrored, kBatchShape.height, kBatchShape.width,
                         expected.data_ptr<std::uint8_t>());
    EXPECT_TRUE(bit_identical(images[i], expected)) << plan.height << " x " << plan.width;
  }
  EXPECT_EQ(images[count].sum().item<std::int64_t>(), 0);
}

TEST(ImageBatch, OfNoImagesNoneAreMade) {
  const auto maker = adaact::image_batch_maker_reference(batch_format());
  const auto none = torch::empty({0, 3, kBatchShape.height, kBatchShape.width}, torch::kByte);
  maker->scale(torch::empty({0}, torch::kByte), {}, none);
  EXPECT_EQ(maker->finish(none, {}).sizes(), none.sizes());
}

}  // namespace
