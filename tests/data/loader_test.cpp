#include <algorithm>
#include <set>
#include <vector>

#include <adaact/data/image_folder.h>
#include <adaact/data/loader.h>
#include <adaact/data/shuffle.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "data/image_files.h"
#include "data/loader_support.h"
#include "data/record_files.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::Loader;
using adaact::LoaderOptions;

TEST(Loader, GivesEverySampleOnceInTheOrderOfTheEpoch) {
  const auto data = small_data();
  Loader loader(data, small_options(2));
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto batches = all_batches(loader, epoch);
    ASSERT_EQ(batches.size(), 11U);
    EXPECT_EQ(batches.back().size(), 3);
    std::vector<torch::Tensor> samples;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      EXPECT_EQ(batches[i].epoch, epoch);
      EXPECT_EQ(batches[i].index, static_cast<std::int64_t>(i));
      EXPECT_TRUE(torch::equal(batches[i].labels, data->labels().index({batches[i].samples})));
      samples.push_back(batches[i].samples);
    }
    EXPECT_TRUE(torch::equal(torch::cat(samples),
                             torch::tensor(adaact::shuffled_order(data->size(), 5, epoch))));
  }
}

TEST(Loader, AugmentsEverySampleByItsOwnDraw) {
  const auto data = small_data();
  const auto options = small_options(1);
  Loader loader(data, options);
  for (const auto& batch : all_batches(loader, 4)) {
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const auto sample = batch.samples[i].item<std::int64_t>();
      const auto draw =
          adaact::draw_augment(options.augment, 5, 4, static_cast<std::uint32_t>(sample));
      EXPECT_TRUE(bit_identical(
          batch.images[i], adaact::augment_reference(data->images()[sample], data->normalization(),
                                                     options.augment, draw)));
    }
  }
}

TEST(Loader, ChangingABatchDoesNotTouchLaterOnes) {
  const auto data = small_data();
  Loader loader(data, small_options(1));
  const auto expected = all_batches(loader, 0);
  const auto factor = torch::full({1}, 2.0F, torch::requires_grad());
  for (int pass = 0; pass < 3; ++pass) {
    loader.start(0);
    for (std::size_t i = 0; auto batch = loader.next(); ++i) {
      EXPECT_FALSE(batch->images.requires_grad());
      EXPECT_TRUE(bit_identical(batch->images, expected[i].images));
      batch->images.mul_(factor);
    }
  }
}

TEST(Loader, ABatchLargerThanTheDataTakesNoMoreMemoryThanTheData) {
  auto options = small_options(1);
  options.batch_size = std::int64_t{1} << 40;
  Loader loader(small_data(), options);
  const auto batches = all_batches(loader, 0);
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0].size(), small_data()->size());
}

TEST(Loader, TheNumberOfWorkersDoesNotMatter) {
  const auto data = small_data();
  Loader reference(data, small_options(0));
  const auto expected = all_batches(reference, 2);
  for (const std::int64_t workers : {1, 2, 5}) {
    Loader loader(data, small_options(workers));
    const auto batches = all_batches(loader, 2);
    ASSERT_EQ(batches.size(), expected.size());
    for (std::size_t i = 0; i < batches.size(); ++i) expect_same(batches[i], expected[i]);
  }
}

TEST(Loader, PartsMakeUpTheBatch) {
  const auto data = small_data();
  Loader reference(data, small_options(0));
  const auto expected = all_batches(reference, 2);
  for (const std::int64_t parts : {1, 2, 3, 7, 40}) {
    std::vector<std::vector<adaact::Batch>> by_part;
    for (std::int64_t part = 0; part < parts; ++part) {
      auto options = small_options(2);
      options.part = part;
      options.parts = parts;
      Loader loader(data, options);
      by_part.push_back(all_batches(loader, 2));
      ASSERT_EQ(by_part.back().size(), expected.size());
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      std::vector<torch::Tensor> images, labels, samples;
      std::int64_t smallest = expected[i].size(), largest = 0;
      for (const auto& batches : by_part) {
        images.push_back(batches[i].images);
        labels.push_back(batches[i].labels);
        samples.push_back(batches[i].samples);
        smallest = std::min(smallest, batches[i].size());
        largest = std::max(largest, batches[i].size());
        EXPECT_EQ(batches[i].whole, expected[i].size());
      }
      EXPECT_LE(largest - smallest, 1);
      const adaact::Batch together{torch::cat(images), torch::cat(labels), torch::cat(samples),
                                   expected[i].epoch,  expected[i].index,  expected[i].whole};
      expect_same(together, expected[i]);
    }
  }
}

TEST(Loader, CanStartAnywhere) {
  const auto data = small_data();
  Loader reference(data, small_options(0));
  const auto expected = all_batches(reference, 2);
  for (const std::int64_t workers : {0, 1, 2, 5}) {
    Loader loader(data, small_options(workers));
    loader.start(1);
    loader.next();
    for (const std::int64_t first : {0, 1, 7, 10, 11}) {
      const auto batches = all_batches(loader, 2, first);
      ASSERT_EQ(batches.size(), expected.size() - static_cast<std::size_t>(first));
      for (std::size_t i = 0; i < batches.size(); ++i) {
        expect_same(batches[i], expected[static_cast<std::size_t>(first) + i]);
      }
    }
  }
}

TEST(Loader, EpochsDiffer) {
  Loader loader(small_data(), small_options(1));
  const auto first = all_batches(loader, 0);
  const auto second = all_batches(loader, 1);
  EXPECT_FALSE(torch::equal(first[0].samples, second[0].samples));
}

TEST(Loader, EvaluationKeepsTheOrderAndOnlyNormalizes) {
  const auto data = small_data();
  auto options = LoaderOptions::evaluation();
  options.batch_size = 50;
  Loader loader(data, options);
  const auto batches = all_batches(loader, 0);
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_TRUE(torch::equal(batches[2].samples, torch::arange(100, 103)));
  EXPECT_TRUE(bit_identical(
      batches[2].images[1],
      adaact::augment_reference(data->images()[101], data->normalization(), options.augment, {})));
}

TEST(Loader, CanDropTheLastBatch) {
  auto options = small_options(1);
  options.drop_last = true;
  Loader loader(small_data(), options);
  EXPECT_EQ(loader.batches_per_epoch(), 10);
  const auto batches = all_batches(loader, 0);
  ASSERT_EQ(batches.size(), 10U);
  EXPECT_EQ(batches.back().size(), 10);
}

TEST(Loader, ChannelsLastIsALayoutOnly) {
  const auto data = small_data();
  Loader planes(data, small_options(1));
  auto options = small_options(1);
  options.layout = adaact::ImageLayout::ChannelsLast;
  Loader channels_last(data, options);
  const auto expected = all_batches(planes, 0);
  const auto batches = all_batches(channels_last, 0);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    EXPECT_TRUE(batches[i].images.is_contiguous(torch::MemoryFormat::ChannelsLast));
    expect_same(batches[i], expected[i]);
  }
}

TEST(Loader, MemoryGoesRoundButNeverUnderTheUser) {
  Loader loader(small_data(1000), small_options(2));
  std::set<void*> places;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> kept;
  loader.start(0);
  while (auto batch = loader.next()) {
    places.insert(batch->images.data_ptr());
    // A view is enough to hold on to it.
    if (batch->index % 20 == 3) kept.emplace_back(batch->images[0], batch->images[0].clone());
  }
  EXPECT_LE(places.size(), 3U + 3U + kept.size());
  for (const auto& [view, copy] : kept) EXPECT_TRUE(torch::equal(view, copy));
}

TEST(Loader, BatchesFromInferenceModeDoNotSpoilTraining) {
  Loader loader(small_data(), small_options(0));
  {
    const torch::InferenceMode inference;
    all_batches(loader, 0);
  }
  const auto batches = all_batches(loader, 1);
  const auto weight = torch::ones({3}, torch::requires_grad());
  const auto loss = (batches[0].images.mean({0, 2, 3}) * weight).sum();
  EXPECT_NO_THROW(loss.backward());
}

TEST(Loader, AnUndecodableImageIsNamed) {
  const TemporaryFolder folder;
  write_png(folder.path() / "train" / "a" / "1.png", plain_image(4, 4, {1, 2, 3}));
  write_text(folder.path() / "train" / "b" / "2.png", "no image");
  adaact::ImageFolderOptions options;
  options.root = folder.path();
  options.image_size = 4;
  const auto data = std::make_shared<adaact::ImageFolder>(options);
  Loader loader(data, small_options(2));
  loader.start(0);
  EXPECT_TRUE(contains(error_of([&] { loader.next(); }),
                       (folder.path() / "train" / "b" / "2.png").string()));
}

TEST(Loader, LoadsImageFoldersLikeAnyOther) {
  const TemporaryFolder folder;
  for (int i = 0; i < 25; ++i) {
    const auto level = static_cast<std::uint8_t>(10 * i);
    write_png(folder.path() / "train" / (i % 2 == 0 ? "a" : "b") / (std::to_string(i) + ".png"),
              plain_image(6 + i % 3, 8, {level, 0, 255}));
  }
  adaact::ImageFolderOptions options;
  options.root = folder.path();
  options.image_size = 5;
  const auto data = std::make_shared<adaact::ImageFolder>(options);
  Loader inline_loader(data, small_options(0));
  Loader loader(data, small_options(3));
  const auto expected = all_batches(inline_loader, 1);
  const auto batches = all_batches(loader, 1);
  ASSERT_EQ(batches.size(), 3U);
  for (std::size_t i = 0; i < batches.size(); ++i) expect_same(batches[i], expected[i]);
}

TEST(Loader, BadUseSaysWhatWasExpected) {
  const auto data = small_data();
  const auto error = [&](const LoaderOptions& options) {
    return error_of([&] { Loader(data, options); });
  };
  auto options = small_options(1);
  options.batch_size = 0;
  EXPECT_TRUE(contains(error(options), "batch_size is 0, expected > 0"));
  EXPECT_TRUE(contains(error(small_options(-1)), "workers is -1, expected >= 0"));
  options = small_options(1);
  options.prefetch = 0;
  EXPECT_TRUE(contains(error(options), "prefetch is 0, expected > 0"));
  options = small_options(1);
  options.parts = 3;
  options.part = 3;
  EXPECT_TRUE(contains(error(options), "part is 3, expected 0 to 2"));
  options.parts = 0;
  EXPECT_TRUE(contains(error(options), "parts is 0, expected > 0"));
  options = small_options(1);
  options.mix.mixup_alpha = -0.5;
  EXPECT_TRUE(contains(error(options), "alpha of mixup or cutmix is -0.5, expected 0 or >= 0.001"));
  options.mix = {0.0, 1e-320};
  EXPECT_TRUE(contains(error(options), "alpha of mixup or cutmix is 9.99989e-321, expected 0 or"));
  options = small_options(1);
  options.drop_last = true;
  options.batch_size = 104;
  EXPECT_TRUE(contains(error(options), "nothing remains of 103 samples; batch_size is 104"));
  if (!torch::cuda::is_available()) {
    options = small_options(1);
    options.pin_memory = true;
    EXPECT_TRUE(contains(error(options), "pin_memory is true, expected false"));
  }
  EXPECT_TRUE(contains(error_of([] { Loader(nullptr, LoaderOptions()); }), "no data set"));
  Loader loader(data, small_options(1));
  EXPECT_TRUE(contains(error_of([&] { loader.next(); }), "before start()"));
  EXPECT_TRUE(contains(error_of([&] { loader.start(-1); }), "epoch is -1"));
  EXPECT_TRUE(
      contains(error_of([&] { loader.start(0, 12); }), "first_batch is 12, expected 0 to 11"));
}

}  // namespace
