// Images that a GPU makes at once against those of the CPU. Skips, visibly, where there is no GPU.

#include <memory>
#include <utility>
#include <vector>

#include <adaact/data/image_folder.h>
#include <adaact/data/loader.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "data/image_batch_cases.h"
#include "data/image_files.h"
#include "data/jpeg_batch_decoder.h"
#include "data/loader_support.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::AugmentOptions;
using adaact::ImageBatchPlan;
using adaact::ImageLayout;
using adaact::ImageOperation;
using adaact::Loader;
using adaact::LoaderOptions;
using adaact::ResampleFilter;

class ImageBatchOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }

  /// What both make of bytes.
  static std::pair<torch::Tensor, torch::Tensor> both(const adaact::ImageBatchFormat& format,
                                                      const torch::Tensor& bytes,
                                                      const ImageBatchPlan& plan) {
    const auto on_gpu =
        adaact::image_batch_maker_cuda(format, torch::kCUDA)->finish(bytes.to(torch::kCUDA), plan);
    return {on_gpu.cpu(), adaact::image_batch_maker_reference(format)->finish(bytes.clone(), plan)};
  }
};

TEST_F(ImageBatchOnGpu, EveryOperationGivesTheSameBits) {
  for (std::uint32_t number = 0; number < adaact::kImageOperations; ++number) {
    for (const auto filter : {ResampleFilter::Bilinear, ResampleFilter::Bicubic}) {
      const auto plan = one_operation(static_cast<ImageOperation>(number), filter, 40);
      const auto [actual, expected] = both(same_levels_format(), patchy_bytes(40), plan);
      EXPECT_TRUE(bit_identical(actual, expected)) << "operation " << number;
    }
  }
}

TEST_F(ImageBatchOnGpu, PartsAreScaledToTheSameBits) {
  const ScaledSources sources;
  const auto images =
      torch::zeros({sources.count(), 3, kBatchShape.height, kBatchShape.width}, torch::kByte);
  const auto pixels = torch::cat(sources.pixels);
  const auto on_gpu = images.to(torch::kCUDA);
  adaact::image_batch_maker_cuda(batch_format(), torch::kCUDA)
      ->scale(pixels.to(torch::kCUDA), sources.plans, on_gpu);
  adaact::image_batch_maker_reference(batch_format())->scale(pixels, sources.plans, images);
  EXPECT_TRUE(bit_identical(on_gpu.cpu(), images));
}

TEST_F(ImageBatchOnGpu, BatchesAreMixedNormalisedRoundedAndLaidOutToTheSameBits) {
  for (const auto& mix : {adaact::MixOptions{0.8, 0.0}, adaact::MixOptions{0.0, 1.0}}) {
    for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
      for (const auto layout : {ImageLayout::Planes, ImageLayout::ChannelsLast}) {
        for (const std::int64_t images : {1, 7, 300}) {
          ImageBatchPlan plan;
          plan.samples = sample_numbers(images);
          plan.mixed = true;
          plan.mix = adaact::draw_mix(mix, kBatchSeed, kBatchEpoch, 4, kBatchShape.height,
                                      kBatchShape.width);
          const auto [actual, expected] =
              both(batch_format(type, layout), patchy_bytes(images), plan);
          EXPECT_TRUE(bit_identical(actual, expected));
        }
      }
    }
  }
}

/// The noise is made of logarithms and sines, which a GPU rounds otherwise.
TEST_F(ImageBatchOnGpu, WhatIsErasedIsTheSameNoiseButForRounding) {
  AugmentOptions options;
  options.erase_probability = 0.7;
  const auto plan = plan_images(options, kBatchShape, kBatchSeed, kBatchEpoch, sample_numbers(50));
  const auto [actual, expected] = both(batch_format(), patchy_bytes(50), plan);
  EXPECT_LT((actual - expected).abs().max().item<float>(), 1e-5F);
}

LoaderOptions recipe_without_noise() {
  auto options = small_options(2);
  options.augment.resized_crop.emplace();
  options.augment.rand_augment.emplace();
  options.mix = {0.8, 1.0};
  options.pin_memory = true;
  return options;
}

TEST_F(ImageBatchOnGpu, TheLoadersBatchesAreTheSame) {
  const auto data = small_data();
  auto options = recipe_without_noise();
  Loader on_cpu(data, options);
  options.device = torch::kCUDA;
  Loader on_gpu(data, options);
  for (const std::int64_t epoch : {0, 1}) {
    const auto expected = all_batches(on_cpu, epoch);
    auto batches = all_batches(on_gpu, epoch);
    ASSERT_EQ(batches.size(), expected.size());
    for (std::size_t i = 0; i < batches.size(); ++i) {
      EXPECT_TRUE(batches[i].images.is_cuda());
      batches[i].images = batches[i].images.cpu();
      expect_same(batches[i], expected[i]);
    }
  }
}

/// nvJPEG rounds otherwise than libjpeg, and spreads colours otherwise. RandAugment makes much of little, so there is none.
TEST_F(ImageBatchOnGpu, PhotographsDecodedByTheGpuAreNearlyTheSame) {
  if (!adaact::has_nvjpeg()) GTEST_SKIP() << "built without nvJPEG";
  const TemporaryFolder folder;
  for (int i = 0; i < 24; ++i) {
    const auto name = std::to_string(i) + ".jpg";
    write_jpeg(folder.path() / "train" / (i % 2 == 0 ? "a" : "b") / name,
               varied_image(90 + 3 * i, 140 - 2 * i, 3));
  }
  adaact::ImageFolderOptions folder_options;
  folder_options.root = folder.path();
  folder_options.image_size = 64;
  const auto data = std::make_shared<adaact::ImageFolder>(folder_options);
  auto options = recipe_without_noise();
  options.augment.rand_augment.reset();
  Loader on_cpu(data, options);
  options.device = torch::kCUDA;
  options.decode_at_once = true;
  Loader on_gpu(data, options);
  for (const std::int64_t epoch : {0, 1}) {
    const auto expected = all_batches(on_cpu, epoch);
    const auto batches = all_batches(on_gpu, epoch);
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const auto levels = (batches[i].images.cpu() - expected[i].images).abs() * (255 * 0.225F);
      EXPECT_LT(levels.mean().item<float>(), 2.0F);
      EXPECT_TRUE(bit_identical(batches[i].samples, expected[i].samples));
    }
  }
}

}  // namespace
