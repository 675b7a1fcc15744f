// What of DeviceBatches needs no GPU; the rest is in tests/cuda.

#include <adaact/data/device_batches.h>

#include <adaact/data/synthetic.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace {

using adaact::DeviceBatches;
using adaact::testing::contains;
using adaact::testing::error_of;

TEST(DeviceBatches, TakesTheOptionsOfALoader) {
  auto loader = adaact::LoaderOptions::training();
  loader.batch_size = 7;
  loader.shuffle = false;
  loader.drop_last = true;
  loader.seed = 3;
  const auto options = DeviceBatches::Options::of(loader, /*channels_last=*/true);
  EXPECT_EQ(options.batch_size, 7);
  EXPECT_FALSE(options.shuffle);
  EXPECT_TRUE(options.drop_last);
  EXPECT_EQ(options.seed, 3U);
  EXPECT_EQ(options.augment.flip_probability, loader.augment.flip_probability);
  EXPECT_TRUE(options.channels_last);
}

TEST(DeviceBatches, KnowsCropsAndFlipsAndNoMore) {
  const auto training = adaact::LoaderOptions::training();
  EXPECT_TRUE(DeviceBatches::knows(training));
  EXPECT_TRUE(DeviceBatches::knows(adaact::LoaderOptions::evaluation()));
  auto loader = training;
  loader.augment.resized_crop.emplace();
  EXPECT_FALSE(DeviceBatches::knows(loader));
  loader = training;
  loader.augment.rand_augment.emplace();
  EXPECT_FALSE(DeviceBatches::knows(loader));
  loader = training;
  loader.augment.erase_probability = 0.1;
  EXPECT_FALSE(DeviceBatches::knows(loader));
  loader = training;
  loader.mix.cutmix_alpha = 1.0;
  EXPECT_FALSE(DeviceBatches::knows(loader));
  EXPECT_EQ(DeviceBatches::Options::of(loader, false).mix.cutmix_alpha, 1.0);
}

TEST(DeviceBatches, SaysThatItNeedsCuda) {
  const auto data = adaact::make_synthetic({});
  EXPECT_TRUE(contains(error_of([&] { DeviceBatches(*data, {}, torch::kCPU); }), "CUDA"));
  EXPECT_TRUE(contains(error_of([&] { DeviceBatches::fits(*data, torch::kCPU); }), "CUDA"));
}

}  // namespace
