// What the loader makes of images with the options for photographs.

#include <vector>

#include <adaact/data/image_folder.h>
#include <adaact/data/loader.h>
#include <adaact/data/synthetic.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "data/image_files.h"
#include "data/loader_support.h"
#include "data/mix_images.h"
#include "data/rand_augment.h"
#include "data/random_erasing.h"
#include "data/resized_crop.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::Augmenter;
using adaact::Loader;
using adaact::LoaderOptions;

constexpr std::int64_t kImageBytes = 3 * 8 * 8;

LoaderOptions all_options(std::int64_t workers) {
  auto options = small_options(workers);
  options.augment.resized_crop.emplace();
  options.augment.rand_augment.emplace();
  options.augment.erase_probability = 0.5;
  options.mix = {0.8, 1.0};
  return options;
}

/// Each option alone, and all together.
std::vector<LoaderOptions> options_in_turn() {
  std::vector<LoaderOptions> each(5, small_options(0));
  each[0].augment.resized_crop.emplace();
  each[1].augment.rand_augment.emplace();
  each[2].augment.erase_probability = 1.0;
  each[3].mix.cutmix_alpha = 1.0;
  each[4] = all_options(0);
  return each;
}

using Bytes8 = std::vector<std::uint8_t>;

/// What becomes of an image before normalisation, step by step.
Bytes8 bytes_before_mixing(const adaact::Dataset& data, const LoaderOptions& options,
                           std::uint32_t epoch, std::uint32_t sample) {
  const auto flip = adaact::draw_augment(options.augment, options.seed, epoch, sample).flip;
  Bytes8 bytes(kImageBytes);
  data.read_part(
      sample,
      [&](std::int64_t height, std::int64_t width) {
        auto part = adaact::draw_resized_crop(*options.augment.resized_crop, options.seed, epoch,
                                              sample, height, width);
        part.mirrored = flip;
        return part;
      },
      bytes.data());
  Bytes8 scratch(kImageBytes);
  adaact::rand_augment(*options.augment.rand_augment, options.seed, epoch, sample, data.shape(),
                       bytes.data(), scratch.data());
  return bytes;
}

torch::Tensor finished(const adaact::Dataset& data, const LoaderOptions& options,
                       std::uint32_t epoch, std::uint32_t sample, const Bytes8& bytes) {
  const Augmenter normalizer(data.shape(), data.normalization(), {});
  auto image = torch::empty({3, 8, 8});
  normalizer.apply(bytes.data(), {}, image.data_ptr<float>());
  adaact::erase_randomly(options.augment.erase_probability, options.seed, epoch, sample,
                         data.shape(), adaact::ImageLayout::Planes, image.data_ptr<float>());
  return image;
}

TEST(LoaderAugment, StepsComeInTheirOrder) {
  const auto data = small_data();
  const auto options = all_options(2);
  Loader loader(data, options);
  for (const auto& batch : all_batches(loader, 3)) {
    const auto draw = adaact::draw_mix(options.mix, options.seed, 3,
                                       static_cast<std::uint32_t>(batch.index), 8, 8);
    EXPECT_EQ(batch.own_share, draw.own_share);
    for (std::int64_t i = 0; i < batch.size(); i += 2) {
      const bool alone = i + 1 == batch.size();
      const auto sample = batch.samples[i].item<std::int64_t>();
      const auto other = batch.samples[alone ? i : i + 1].item<std::int64_t>();
      auto one = bytes_before_mixing(*data, options, 3, static_cast<std::uint32_t>(sample));
      auto two = bytes_before_mixing(*data, options, 3, static_cast<std::uint32_t>(other));
      if (!alone) adaact::mix_pair(draw, data->shape(), one.data(), two.data());
      EXPECT_TRUE(bit_identical(
          batch.images[i], finished(*data, options, 3, static_cast<std::uint32_t>(sample), one)));
      EXPECT_EQ(batch.labels[i].item<std::int64_t>(), data->label(sample));
      EXPECT_EQ(batch.partner_labels[i].item<std::int64_t>(), data->label(other));
      if (alone) continue;
      EXPECT_TRUE(
          bit_identical(batch.images[i + 1],
                        finished(*data, options, 3, static_cast<std::uint32_t>(other), two)));
      EXPECT_EQ(batch.partner_labels[i + 1].item<std::int64_t>(), data->label(sample));
    }
  }
}

TEST(LoaderAugment, PartnersAreThoseFromBothEndsOfTheBatch) {
  const auto data = small_data();
  auto options = small_options(0);
  Loader unmixed(data, options);
  options.mix.mixup_alpha = 0.5;
  Loader mixed(data, options);
  const auto expected = all_batches(unmixed, 1);
  const auto batches = all_batches(mixed, 1);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto size = expected[i].size();
    ASSERT_EQ(batches[i].size(), size);
    EXPECT_FALSE(expected[i].partner_labels.defined());
    for (std::int64_t slot = 0; slot < size; ++slot) {
      const auto position = adaact::position_of_slot(slot, size);
      EXPECT_EQ(batches[i].samples[slot].item<std::int64_t>(),
                expected[i].samples[position].item<std::int64_t>());
      EXPECT_EQ(batches[i].partner_labels[slot].item<std::int64_t>(),
                expected[i].labels[size - 1 - position].item<std::int64_t>());
    }
  }
}

TEST(LoaderAugment, EachOptionAloneAndAllTogetherWithAnyNumberOfWorkers) {
  const auto data = small_data();
  Loader plain(data, small_options(0));
  const auto without = all_batches(plain, 2);
  for (auto options : options_in_turn()) {
    Loader reference(data, options);
    const auto expected = all_batches(reference, 2);
    EXPECT_FALSE(torch::equal(expected[0].images, without[0].images));
    for (const std::int64_t workers : {1, 3}) {
      options.workers = workers;
      Loader loader(data, options);
      const auto batches = all_batches(loader, 2);
      ASSERT_EQ(batches.size(), expected.size());
      for (std::size_t i = 0; i < batches.size(); ++i) expect_same(batches[i], expected[i]);
      const auto rest = all_batches(loader, 2, 6);
      ASSERT_EQ(rest.size(), expected.size() - 6);
      for (std::size_t i = 0; i < rest.size(); ++i) expect_same(rest[i], expected[6 + i]);
    }
  }
}

TEST(LoaderAugment, PartsMakeUpTheMixedBatch) {
  const auto data = small_data();
  Loader reference(data, all_options(0));
  const auto expected = all_batches(reference, 2);
  for (const std::int64_t parts : {1, 2, 3, 7}) {
    std::vector<std::vector<adaact::Batch>> by_part;
    for (std::int64_t part = 0; part < parts; ++part) {
      auto options = all_options(2);
      options.part = part;
      options.parts = parts;
      Loader loader(data, options);
      by_part.push_back(all_batches(loader, 2));
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      std::vector<torch::Tensor> images, labels, samples, partners;
      for (std::size_t part = 0; part < by_part.size(); ++part) {
        const auto& batch = by_part[part][i];
        images.push_back(batch.images);
        labels.push_back(batch.labels);
        samples.push_back(batch.samples);
        partners.push_back(batch.partner_labels);
        EXPECT_EQ(batch.whole, expected[i].size());
      }
      adaact::Batch together{torch::cat(images), torch::cat(labels), torch::cat(samples),
                             expected[i].epoch,  expected[i].index,  expected[i].whole};
      together.partner_labels = torch::cat(partners);
      together.own_share = by_part[0][i].own_share;
      expect_same(together, expected[i]);
    }
  }
}

TEST(LoaderAugment, ChannelsLastIsALayoutOnly) {
  const auto data = small_data();
  auto options = all_options(1);
  Loader planes(data, options);
  options.layout = adaact::ImageLayout::ChannelsLast;
  Loader channels_last(data, options);
  const auto expected = all_batches(planes, 0);
  const auto batches = all_batches(channels_last, 0);
  for (std::size_t i = 0; i < batches.size(); ++i) expect_same(batches[i], expected[i]);
}

TEST(LoaderAugment, FinishedAtOnceImagesHaveTheSameBits) {
  const auto data = small_data();
  for (auto options : options_in_turn()) {
    for (const std::int64_t parts : {1, 7}) {  // of the last batch some of seven parts have nothing
      options.parts = parts;
      options.part = parts / 2;
      Loader one_by_one(data, options);
      const auto expected = all_batches(one_by_one, 2);
      auto at_once = options;
      at_once.at_once = true;
      for (const std::int64_t workers : {0, 2}) {
        at_once.workers = workers;
        Loader loader(data, at_once);
        const auto batches = all_batches(loader, 2);
        ASSERT_EQ(batches.size(), expected.size());
        for (std::size_t i = 0; i < batches.size(); ++i) expect_same(batches[i], expected[i]);
      }
    }
  }
}

TEST(LoaderAugment, FinishedAtOnceImagesAreOfTheTypeAndLayoutAskedFor) {
  const auto data = small_data();
  Loader one_by_one(data, all_options(0));
  const auto expected = all_batches(one_by_one, 1);
  auto options = all_options(1);
  options.at_once = true;
  options.dtype = torch::kBFloat16;
  options.layout = adaact::ImageLayout::ChannelsLast;
  Loader loader(data, options);
  const auto batches = all_batches(loader, 1);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto& images = batches[i].images;
    EXPECT_TRUE(images.is_contiguous(torch::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(bit_identical(images.contiguous(), expected[i].images.to(torch::kBFloat16)));
  }
}

TEST(LoaderAugment, ATypeThatNobodyMakesIsAnError) {
  auto options = small_options(0);
  options.dtype = torch::kBFloat16;
  EXPECT_TRUE(contains(error_of([&] { const Loader loader(small_data(), options); }),
                       "dtype is BFloat16, expected Float"));
  options.at_once = true;
  options.dtype = torch::kDouble;
  EXPECT_TRUE(contains(error_of([&] { const Loader loader(small_data(), options); }),
                       "dtype is Double, expected Float"));
}

TEST(LoaderAugment, ImagesOfOnePixelAreImages) {
  adaact::SyntheticOptions synthetic;
  synthetic.size = 7;
  synthetic.shape = {3, 1, 1};
  const auto data = adaact::make_synthetic(synthetic);
  auto options = all_options(1);
  options.batch_size = 7;
  Loader loader(data, options);
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const auto batch = all_batches(loader, epoch).at(0);
    EXPECT_EQ(batch.size(), 7);
    EXPECT_TRUE(torch::isfinite(batch.images).all().item<bool>());
  }
}

TEST(LoaderAugment, OfPhotographsPartsAreTakenNotOfTheirMiddles) {
  const TemporaryFolder folder;
  // Black but for the left border, which the middle does not have.
  auto wide = plain_image(16, 64, {0, 0, 0});
  for (std::size_t y = 0; y < 16; ++y) {
    for (std::size_t i = 0; i < 8 * 3; ++i) wide.samples[y * 64 * 3 + i] = 255;
  }
  for (int i = 0; i < 40; ++i) {
    write_png(folder.path() / "train" / "a" / (std::to_string(i) + ".png"), wide);
  }
  adaact::ImageFolderOptions folder_options;
  folder_options.root = folder.path();
  folder_options.image_size = 8;
  const auto data = std::make_shared<adaact::ImageFolder>(folder_options);
  auto options = small_options(1);
  options.batch_size = 40;
  options.augment.resized_crop.emplace();
  Loader loader(data, options);
  const auto batch = all_batches(loader, 0).at(0);
  const auto has_border = batch.images.amax({1, 2, 3}) > 1.0;
  EXPECT_GT(has_border.sum().item<std::int64_t>(), 0);
  EXPECT_LT(has_border.sum().item<std::int64_t>(), 40);
}

}  // namespace
