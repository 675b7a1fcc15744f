// Batches of a loader in memory that stays where it is, without the GPU that it is for.

#include <memory>
#include <vector>

#include <adaact/data/synthetic.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/tolerance.h"
#include "train/graph/batch_source.h"

namespace {

using namespace adaact;
using adaact::testing::bit_identical;
using adaact::testing::contains;
using adaact::testing::error_of;

/// Three batches of eight images, the last one of four.
Loader small_loader(const MixOptions& mix = {}) {
  SyntheticOptions synthetic;
  synthetic.size = 20;
  synthetic.shape = {3, 8, 8};
  auto options = LoaderOptions::training();
  options.batch_size = 8;
  options.mix = mix;
  return {make_synthetic(synthetic), options};
}

PassSettings channels_last() {
  PassSettings passes;
  passes.channels_last = true;
  return passes;
}

void expect_same(const StaticBatch& actual, const Batch& expected, const PassSettings& passes) {
  const auto targets = Targets::of(expected, passes.device);
  EXPECT_TRUE(bit_identical(actual.images, prepared_images(expected, passes)));
  EXPECT_TRUE(bit_identical(actual.targets.labels, targets.labels));
  EXPECT_EQ(actual.begin, expected.begin);
  EXPECT_EQ(actual.whole, expected.whole);
  ASSERT_EQ(actual.targets.are_mixed(), targets.are_mixed());
  if (!targets.are_mixed()) return;
  EXPECT_TRUE(bit_identical(actual.targets.partner_labels, targets.partner_labels));
  EXPECT_TRUE(bit_identical(actual.targets.own_share, targets.own_share));
}

/// What a graph would know of a batch.
std::vector<const void*> places_of(const StaticBatch& batch) {
  std::vector<const void*> places;
  for (const auto& tensor : {batch.images, batch.targets.labels, batch.targets.partner_labels,
                             batch.targets.own_share}) {
    places.push_back(tensor.defined() ? tensor.data_ptr() : nullptr);
  }
  return places;
}

void expect_batches_of_loader(const MixOptions& mix) {
  const auto passes = channels_last();
  auto loader = small_loader(mix);
  auto fed = small_loader(mix);
  const auto source = fed_batches(fed, passes, single_process());
  EXPECT_EQ(source->batches_per_epoch(), 3);
  StaticBatch whole;
  StaticBatch last;
  std::vector<const void*> places;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    loader.start(epoch);
    source->start(epoch, /*first_batch=*/0);
    for (std::int64_t number = 0; number < 3; ++number) {
      SCOPED_TRACE(number);
      auto& batch = number == 2 ? last : whole;
      source->prepare(batch, number);
      source->enqueue_next(batch);
      expect_same(batch, loader.next().value(), passes);
      if (places.empty()) places = places_of(batch);
    }
  }
  EXPECT_EQ(places_of(whole), places);
  EXPECT_TRUE(whole.images.is_contiguous(torch::MemoryFormat::ChannelsLast));
}

TEST(FedBatches, AreTheLoadersInMemoryThatStays) { expect_batches_of_loader({}); }

TEST(FedBatches, AreMixedAsTheLoadersAre) { expect_batches_of_loader({0.8, 1.0}); }

TEST(FedBatches, EnterAnEpochLater) {
  const PassSettings passes;
  auto loader = small_loader();
  auto fed = small_loader();
  const auto source = fed_batches(fed, passes, single_process());
  loader.start(/*epoch=*/1, /*first_batch=*/1);
  source->start(/*epoch=*/1, /*first_batch=*/1);
  StaticBatch batch;
  source->prepare(batch, 1);
  expect_same(batch, loader.next().value(), passes);
}

TEST(FedBatches, OutOfTurnOrOfAnotherSizeAreErrors) {
  auto loader = small_loader();
  const auto source = fed_batches(loader, PassSettings(), single_process());
  source->start(0, 0);
  StaticBatch batch;
  source->prepare(batch, 0);
  EXPECT_TRUE(contains(error_of([&] { source->prepare(batch, 2); }), "out of turn"));
  const auto error = error_of([&] { source->prepare(batch, 2); });
  EXPECT_TRUE(contains(error, "batch 2 has 4 of 4 images, expected 8 of 8")) << error;
}

TEST(FedBatches, TellHowLongTheyWereWaitedFor) {
  auto loader = small_loader();
  const auto source = fed_batches(loader, PassSettings(), single_process());
  source->start(0, 0);
  StaticBatch batch;
  source->prepare(batch, 0);
  EXPECT_EQ(source->seconds_waited(), loader.seconds_waited());
}

}  // namespace
