#include <filesystem>
#include <fstream>

#include <adaact/data/packed_images.h>
#include <adaact/models/weights.h>
#include <adaact/train/model_card.h>
#include <adaact/train/run_config.h>
#include <gtest/gtest.h>

#include "data/image_files.h"
#include "data/tar_archive.h"
#include "support/errors.h"
#include "support/temporary_folder.h"
#include "train/run/run_parts.h"

namespace {

using adaact::RunConfig;
using namespace adaact::testing;
namespace fs = std::filesystem;

RunConfig resolved(RunConfig config) {
  config.resolve();
  return config;
}

RunConfig of_dataset(const std::string& name) {
  RunConfig config;
  config.dataset = name;
  return config;
}

std::string tar_entry(const std::string& name, const std::string& content) {
  const auto header = adaact::tar_header(name, static_cast<std::int64_t>(content.size()));
  std::string entry(header.data(), header.size());
  entry += content;
  entry.resize(static_cast<std::size_t>(
      adaact::kTarBlock + adaact::in_tar_blocks(static_cast<std::int64_t>(content.size()))));
  return entry;
}

class ChosenDefaults : public ::testing::Test {
 protected:
  /// So many images of each class, all of them one file.
  void write_images(const std::vector<std::string>& classes, int count,
                    const std::string& split = ".") const {
    const auto image = folder_.path() / "image";
    if (!fs::exists(image)) write_png(image, plain_image(2, 2, {1, 2, 3}));
    for (const auto& name : classes) {
      const auto folder = images() / split / name;
      fs::create_directories(folder);
      for (int i = 0; i < count; ++i) {
        fs::create_hard_link(image, folder / (std::to_string(i) + ".png"));
      }
    }
  }
  fs::path images() const { return folder_.path() / "images"; }
  RunConfig of_images() const {
    RunConfig config;
    config.data_dir = images().string();
    config.validation = 0.2;
    return config;
  }

  TemporaryFolder folder_;
};

TEST_F(ChosenDefaults, OfDataSetsAreWhatTheyWere) {
  const auto plain = resolved({});
  EXPECT_EQ(plain.dataset, "fashion-mnist");
  EXPECT_EQ(plain.model, "lenet5");
  EXPECT_EQ(plain.epochs, 3);
  EXPECT_EQ(plain.batch_size, 128);
  EXPECT_EQ(plain.flip, "on");
  EXPECT_EQ(resolved(of_dataset("synthetic")).model, "lenet5");
  EXPECT_EQ(resolved(of_dataset("cifar10")).model, "resnet20");
  EXPECT_EQ(resolved(of_dataset("cifar10")).image_size, 0);
}

TEST_F(ChosenDefaults, DigitsAreNotFlipped) {
  const auto digits = resolved(of_dataset("mnist"));
  EXPECT_EQ(digits.model, "lenet5");
  EXPECT_EQ(digits.flip, "off");
  const auto probability = [](const RunConfig& config) {
    return adaact::loader_options(config, 1, adaact::Split::Train).augment.flip_probability;
  };
  EXPECT_EQ(probability(digits), 0.0);
  EXPECT_EQ(probability(resolved(of_dataset("fashion-mnist"))), 0.5);
  auto mirrored = of_dataset("mnist");
  mirrored.flip = "on";
  EXPECT_EQ(probability(resolved(mirrored)), 0.5);
  write_images({"0", "1"}, 2);
  EXPECT_EQ(resolved(of_images()).flip, "off");
}

/// Ten classes of shards that have no names are not ten digits.
TEST_F(ChosenDefaults, NumbersOfClassesWithoutNamesAreNoDigits) {
  std::string shard;
  for (int label = 0; label < 10; ++label) {
    const auto number = std::to_string(label);
    for (const auto* copy : {"a", "b"}) {
      shard += tar_entry(number + copy + ".png", "p") + tar_entry(number + copy + ".cls", number);
    }
  }
  fs::create_directories(images());
  std::ofstream(images() / "a.tar", std::ios::binary) << shard << std::string(1024, '\0');
  EXPECT_EQ(resolved(of_images()).flip, "on");
  const auto packed = folder_.path() / "packed";
  adaact::pack_images({images(), packed, 1'000'000, false}, [](const auto&, auto, auto) {});
  auto of_packed = of_images();
  of_packed.data_dir = packed.string();
  EXPECT_EQ(resolved(of_packed).flip, "on") << "nor does packing them make digits of them";
  std::ofstream(images() / "classes.txt") << "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n";
  EXPECT_EQ(resolved(of_images()).flip, "off") << "where somebody has called them so";
}

TEST_F(ChosenDefaults, BatchesForAGpuAreInPinnedMemory) {
  auto config = of_dataset("synthetic");
  const auto is_pinned = [&](adaact::Split split) {
    return adaact::loader_options(config, 1, split).pin_memory;
  };
  for (const auto split : {adaact::Split::Train, adaact::Split::Test}) {
    config.device = "cpu";
    EXPECT_FALSE(is_pinned(split));
    config.device = "cuda:1";
    EXPECT_TRUE(is_pinned(split));
  }
}

TEST_F(ChosenDefaults, OfAFolderOfImagesFitTheirNumber) {
  write_images({"cat", "dog"}, 250);
  const auto config = resolved(of_images());
  EXPECT_EQ(config.dataset, "image-folder");
  EXPECT_EQ(config.model, "resnet20");
  EXPECT_EQ(config.image_size, 64);
  EXPECT_EQ(config.batch_size, 32) << "of 400 images";
  EXPECT_EQ(config.epochs, 30);
  EXPECT_EQ(config.flip, "on");
  EXPECT_EQ(resolved(config).to_json(), config.to_json());
  auto more = of_images();
  more.validation = 0.0;
  write_images({"cat", "dog"}, 2000, "train");
  more.data_dir = images().string();
  EXPECT_EQ(resolved(more).batch_size, 128);
  EXPECT_EQ(resolved(more).epochs, 10);
}

TEST_F(ChosenDefaults, WhatIsSaidStays) {
  write_images({"cat", "dog"}, 3);
  auto config = of_images();
  config.model = "resnet50";
  config.epochs = 7;
  config.batch_size = 5;
  config.flip = "off";
  const auto own = resolved(config);
  EXPECT_EQ(own.model, "resnet50");
  EXPECT_EQ(own.image_size, 224);
  EXPECT_EQ(own.epochs, 7);
  EXPECT_EQ(own.batch_size, 5);
  EXPECT_EQ(own.flip, "off");
  config.model = "auto";
  config.image_size = 224;
  EXPECT_EQ(resolved(config).model, "resnet50");
  config.image_size = 4;
  EXPECT_EQ(resolved(config).model, "mlp");
  config.image_size = 0;
  config.model = "lenet5";
  EXPECT_EQ(resolved(config).image_size, 32);
  config.model = "resnet34";
  EXPECT_EQ(resolved(config).image_size, 64);
  config.resize_size = 48;
  EXPECT_EQ(resolved(config).image_size, 48);
}

TEST_F(ChosenDefaults, WeightsSayWhatTheyAreFor) {
  write_images({"cat", "dog"}, 3);
  adaact::ModelCard card;
  card.model = "resnet32";
  card.batchnorm = false;
  card.data = {"image-folder", {3, 48, 48}, {"a", "b"}, {{0, 0, 0}, {1, 1, 1}}};
  card.resize_size = 56;
  const auto weights = folder_.path() / "weights.safetensors";
  adaact::save_weights(*card.build(), weights, card.to_metadata());
  auto config = of_images();
  config.weights = weights.string();
  const auto fitted = resolved(config);
  EXPECT_EQ(fitted.model, "resnet32");
  EXPECT_FALSE(fitted.batchnorm);
  EXPECT_EQ(fitted.image_size, 48);
  EXPECT_EQ(fitted.resize_size, 56);
  config.weights = "/nowhere.safetensors";
  EXPECT_TRUE(contains(error_of([&] { config.resolve(); }), "/nowhere.safetensors"));
}

TEST_F(ChosenDefaults, AFolderOfNothingKnownIsAnError) {
  fs::create_directories(images());
  auto config = of_images();
  EXPECT_TRUE(contains(error_of([&] { config.resolve(); }),
                       "data_dir is '" + images().string() + "', expected a folder of images"));
}

/// What is wrong with a folder is said by whoever opens it, in full.
TEST_F(ChosenDefaults, AFolderThatCannotBeOpenedIsLeftToWhoeverOpensIt) {
  write_images({"cat"}, 1);
  auto config = of_images();
  config.resolve();
  EXPECT_EQ(config.dataset, "image-folder");
  EXPECT_TRUE(contains(error_of([&] { adaact::open_split(config, adaact::Split::Train); }),
                       "has 1 image, expected 2 at least"));
}

}  // namespace
