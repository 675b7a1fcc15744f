#include <adaact/train/run_config.h>

#include <cmath>
#include <limits>

#include <adaact/train/training_run.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "support/odd_files.h"
#include "train/run/run_parts.h"

namespace {

using adaact::RunConfig;
using adaact::testing::contains;
using adaact::testing::error_of;
using nlohmann::json;

TEST(RunConfig, SurvivesJson) {
  RunConfig config;
  config.model = "resnet20";
  config.milestones = {3, 5};
  config.clip_norm = 0.5;
  config.crop_scale = {0.25, 0.75};
  config.rand_augment = "rand-m7-inc1";
  config.warmup_lr = 0.125;
  config.patience = 4;
  config.optimizer_options = R"({"lr":0.25})";
  config.seed = 18446744073709551615U;
  const auto again = RunConfig::from_json(config.to_json(), "test");
  EXPECT_EQ(again.to_json(), config.to_json());
  EXPECT_TRUE(differences(config, again).empty());
  EXPECT_TRUE(std::isinf(RunConfig::from_json(RunConfig().to_json(), "test").clip_norm));
  EXPECT_TRUE(std::isinf(RunConfig::from_json(RunConfig().to_json(), "test").warmup_lr));
}

TEST(RunConfig, FieldsFromLaterVersionsHaveDefaultsAndUnknownOnesAreErrors) {
  auto older = json::parse(RunConfig().to_json());
  older.erase("resize_size");
  older.erase("patience");
  EXPECT_TRUE(differences(RunConfig(), RunConfig::from_json(older.dump(), "old.json")).empty());
  auto newer = json::parse(RunConfig().to_json());
  newer["warp"] = 9;
  const auto error = error_of([&] { RunConfig::from_json(newer.dump(), "new.json"); });
  EXPECT_TRUE(contains(error, "new.json: unknown field 'warp'"));
}

/// As a run from before these fields were has it.
TEST(RunConfig, AFileFromBeforeMeansWhatItMeantThen) {
  RunConfig config;
  config.dataset = "image-folder";
  auto older = json::parse(config.to_json());
  older.erase("flip");
  older.erase("crop");
  older.erase("validation");
  const auto read = RunConfig::from_json(older.dump(), "old.json");
  EXPECT_EQ(read.flip, "on");
  EXPECT_EQ(read.crop, "padded");
  EXPECT_EQ(read.validation, 0.0);
  EXPECT_EQ(read.image_size, 224);
  older["dataset"] = "mnist";
  EXPECT_EQ(RunConfig::from_json(older.dump(), "old.json").flip, "on");
  EXPECT_EQ(RunConfig::from_json(older.dump(), "old.json").image_size, 0);
}

TEST(RunConfig, WhatIsNoConfigurationIsNamed) {
  const auto error = [](const std::string& text) {
    return error_of([&] { RunConfig::from_json(text, "some.json"); });
  };
  EXPECT_TRUE(contains(error("{"), "some.json is no configuration"));
  EXPECT_TRUE(contains(error("[]"), "some.json is no configuration"));
  auto wrong = json::parse(RunConfig().to_json());
  wrong["epochs"] = "three";
  EXPECT_TRUE(contains(error(wrong.dump()), "some.json"));
  wrong = json::parse(RunConfig().to_json());
  wrong["drop_path"] = nullptr;  // only clip_norm may be unlimited
  EXPECT_TRUE(contains(error(wrong.dump()), "some.json"));
}

TEST(RunConfig, NumbersAreTakenAsTheyAreOrNotAtAll) {
  const auto error = [](const char* field, const json& value) {
    auto wrong = json::parse(RunConfig().to_json());
    wrong[field] = value;
    return error_of([&] { RunConfig::from_json(wrong.dump(), "some.json"); });
  };
  const std::string beginning = "some.json is no configuration of a run: ";
  EXPECT_TRUE(contains(error("epochs", 2.5), beginning + "epochs is 2.5, expected a whole number"));
  EXPECT_TRUE(contains(error("batch_size", 1e300), beginning + "batch_size is 1e+300, expected"));
  EXPECT_TRUE(contains(error("limit_train", 18446744073709551615U),
                       beginning + "limit_train is 18446744073709551615, expected"));
  EXPECT_TRUE(contains(error("seed", -1), beginning + "seed is -1, expected a whole number"));
  EXPECT_TRUE(contains(error("milestones", {1, 2.5}), beginning + "milestones is 2.5, expected"));
  EXPECT_TRUE(contains(error("optimizer_options", {1}), beginning + "optimizer_options is '[1]'"));
}

TEST(RunConfig, DepthIsLimited) {
  const auto deep = adaact::testing::deep_json();
  const auto error = [](const std::string& text) {
    return error_of([&] { RunConfig::from_json(text, "some.json"); });
  };
  EXPECT_TRUE(contains(error(deep), "some.json is no configuration: it is nested deeper than"));
  EXPECT_TRUE(contains(error("{\"optimizer_options\":" + deep + "}"), "it is nested deeper than"));
  RunConfig config;
  config.optimizer_options = deep;
  EXPECT_TRUE(contains(error_of([&] { config.resolve(); }), "it is nested deeper than"));
  EXPECT_TRUE(contains(error_of([&] { config.to_json(); }), "it is nested deeper than"));
}

TEST(RunConfig, ResolvesWhatWasLeftOpen) {
  RunConfig config;
  config.optimizer = "sam";
  config.optimizer_options = R"({"base": "adam"})";
  config.data_dir = "here/../there";
  config.resolve();
  EXPECT_GT(config.threads, 0);
  EXPECT_EQ(config.data_dir, (std::filesystem::current_path() / "there").string());
  const auto options = json::parse(config.optimizer_options);
  EXPECT_EQ(options["base"], "adam");
  EXPECT_TRUE(options.contains("rho"));
  EXPECT_TRUE(options.contains("betas"));
  const auto resolved = config.to_json();
  config.resolve();
  EXPECT_EQ(config.to_json(), resolved);
}

/// An image folder that is not there: what is chosen by its images stays open.
RunConfig of_folder() {
  RunConfig config;
  config.model = "resnet50";
  config.dataset = "image-folder";
  config.data_dir = "no-such-folder";
  config.image_size = 224;
  return config;
}

TEST(RunConfig, ACropRatioIsAResizeSize) {
  for (const auto& [ratio, size] :
       {std::pair(0.95, 235), std::pair(0.9, 248), std::pair(0.875, 256), std::pair(0.7, 320)}) {
    auto config = of_folder();
    config.crop_ratio = ratio;
    config.resolve();
    EXPECT_EQ(config.resize_size, size) << ratio;
    config.resolve();
    EXPECT_EQ(config.resize_size, size) << ratio;
  }
  const auto error = [](auto&& change) {
    auto config = of_folder();
    change(config);
    return error_of([&] { config.resolve(); });
  };
  EXPECT_TRUE(contains(error([](auto& c) {
                         c.crop_ratio = 0.95;
                         c.resize_size = 256;
                       }),
                       "resize_size is 256, but crop_ratio 0.95 makes it 235"));
  EXPECT_TRUE(contains(error([](auto& c) { c.crop_ratio = 1.5; }), "crop_ratio is 1.5, expected"));
  EXPECT_TRUE(contains(error([](auto& c) { c.crop_ratio = 1e-9; }), "resize_size is 16385"));
  EXPECT_TRUE(contains(error([](auto& c) {
                         c.dataset = "synthetic";
                         c.data_dir = "";
                         c.crop_ratio = 0.5;
                       }),
                       "crop_ratio is of use only with the data set image-folder"));
}

TEST(RunConfig, CropsAreThoseOfTheDataUnlessTheyAreSaid) {
  RunConfig config;
  config.resolve();
  EXPECT_EQ(config.crop, "padded");
  config = {};
  config.augment = false;
  config.resolve();
  EXPECT_EQ(config.crop, "none");
  config = of_folder();
  config.crop = "resized";
  config.resolve();
  EXPECT_EQ(config.crop_scale, (std::vector<double>{0.08, 1.0}));
}

TEST(RunConfig, ErrorsOfTheRecipeNameTheField) {
  const auto error = [](auto&& change) {
    auto config = of_folder();
    config.epochs = 9;
    config.optimizer_options = R"({"lr": 0.5})";
    change(config);
    return error_of([&] { config.resolve(); });
  };
  EXPECT_TRUE(contains(error([](auto& c) { c.crop = "centre"; }),
                       "crop is 'centre', expected one of: resized, padded, none"));
  EXPECT_TRUE(contains(error([](auto& c) {
                         c.crop_scale = {0.1, 1.0};
                       }),
                       "crop_scale is of use only with the crop 'resized'"));
  for (const auto& scale :
       std::vector<std::vector<double>>{{0.5}, {0.0, 1.0}, {0.9, 0.8}, {0.5, 1.5}, {0.1, 0.2, 1}}) {
    EXPECT_TRUE(contains(error([&](auto& c) {
                           c.crop = "resized";
                           c.crop_scale = scale;
                         }),
                         "expected two shares of the area"));
  }
  EXPECT_TRUE(contains(error([](auto& c) { c.rand_augment = "rand-m7"; }), "lacks inc1"));
  EXPECT_TRUE(contains(error([](auto& c) { c.erase = 1.5; }), "erase is 1.5, expected 0 to 1"));
  EXPECT_TRUE(
      contains(error([](auto& c) { c.mixup = -1; }), "mixup is -1, expected 0 or 0.001 to 1000"));
  EXPECT_TRUE(contains(error([](auto& c) { c.cutmix = 1e-320; }), "cutmix is "));
  EXPECT_TRUE(
      contains(error([](auto& c) { c.cutmix = -1; }), "cutmix is -1, expected 0 or 0.001 to 1000"));
  EXPECT_TRUE(contains(error([](auto& c) {
                         c.mixup = 0.1;
                         c.augment = false;
                       }),
                       "mixup is of use only with augmentation"));
  EXPECT_TRUE(contains(error([](auto& c) { c.loss = "mse"; }),
                       "loss is 'mse', expected one of: cross-entropy, bce"));
  EXPECT_TRUE(contains(error([](auto& c) { c.ema = 1; }), "ema is 1, expected [0, 1)"));
  EXPECT_TRUE(contains(error([](auto& c) { c.min_lr = 0.6; }),
                       "min_lr is 0.6, expected 0 to the learning rate, which is 0.5"));
  EXPECT_TRUE(contains(error([](auto& c) { c.min_lr = -1; }), "min_lr is -1, expected 0 to"));
  EXPECT_TRUE(contains(error([](auto& c) {
                         c.min_lr = 0.1;
                         c.final_lr_factor = 0.1;
                       }),
                       "min_lr is of use only with final_lr_factor 0"));
  EXPECT_TRUE(contains(error([](auto& c) {
                         c.min_lr = 0.1;
                         c.schedule = "constant";
                       }),
                       "min_lr is of use only with the cosine schedules"));
  EXPECT_TRUE(contains(error([](auto& c) { c.warmup_lr = std::nan(""); }),
                       "warmup_lr is of use only with warmup_epochs"));
  EXPECT_TRUE(contains(error([](auto& c) {
                         c.warmup_epochs = 1;
                         c.warmup_lr = -std::numeric_limits<double>::infinity();
                       }),
                       "warmup_lr is -inf, expected 0 to the learning rate"));
  EXPECT_TRUE(contains(error([](auto& c) { c.warmup_lr = 0.1; }),
                       "warmup_lr is of use only with warmup_epochs"));
  EXPECT_TRUE(contains(error([](auto& c) {
                         c.warmup_lr = 0.7;
                         c.warmup_epochs = 2;
                       }),
                       "warmup_lr is 0.7, expected 0 to the learning rate, which is 0.5"));
}

TEST(RunConfig, WarmUpToARateOfZeroIsOfZero) {
  RunConfig config;
  config.optimizer_options = R"({"lr": 0})";
  config.warmup_epochs = 1;
  config.warmup_lr = 0.0;
  config.resolve();
  const auto schedule = adaact::build_schedule(config, /*steps_per_epoch=*/2);
  for (const std::int64_t step : {0, 1, 2}) EXPECT_TRUE(std::isfinite(schedule(step))) << step;
}

TEST(RunConfig, ErrorsNameTheFieldItsValueAndWhatWasExpected) {
  const auto error = [](auto&& change) {
    RunConfig config;
    change(config);
    return error_of([&] { config.resolve(); });
  };
  EXPECT_TRUE(contains(error([](auto& c) { c.model = "lenet6"; }),
                       "model is 'lenet6', expected one of: densenet121"));
  EXPECT_TRUE(contains(error([](auto& c) { c.dataset = "svhn"; }), "dataset is 'svhn'"));
  EXPECT_TRUE(contains(error([](auto& c) { c.optimizer = "adamax"; }), "optimizer is 'adamax'"));
  EXPECT_TRUE(contains(error([](auto& c) {
                         c.optimizer_options = R"({"base": 3})";
                         c.optimizer = "sam";
                       }),
                       "base is 3"));
  EXPECT_TRUE(
      contains(error([](auto& c) { c.precision = "fp8"; }), "expected one of: fp32, tf32, bf16"));
  EXPECT_TRUE(contains(error([](auto& c) { c.device = "gpu"; }),
                       "device is 'gpu', expected cpu, cuda or cuda:N"));
  EXPECT_TRUE(contains(error([](auto& c) { c.device = "cuda:123"; }), "device is 'cuda:123'"));
  const auto cores = std::to_string(adaact::most_threads() / 4);
  EXPECT_TRUE(contains(error([](auto& c) { c.threads = 4294967297; }),
                       "threads is 4294967297, expected 0 to " +
                           std::to_string(adaact::most_threads()) + ", four for each of the " +
                           cores + " cores"));
  EXPECT_TRUE(contains(error([](auto& c) { c.warmup_epochs = 3; }),
                       "warmup_epochs is 3, expected less than epochs, which is 3"));
  EXPECT_TRUE(contains(error([](auto& c) {
                         c.schedule = "multistep";
                         c.milestones = {7};
                       }),
                       "milestones is 7, expected at least 1 and no more than epochs, which is 3"));
  EXPECT_TRUE(contains(error([](auto& c) { c.patience = -1; }), "patience is -1, expected 0 to"));
  EXPECT_TRUE(contains(error([](auto& c) { c.milestones = {1}; }),
                       "milestones is of use only with the schedules step and multistep"));
  EXPECT_TRUE(contains(error([](auto& c) { c.skip_bad_images = true; }), "image-folder"));
  EXPECT_TRUE(contains(error([](auto& c) { c.validation = 0.1; }), "image-folder"));
  EXPECT_TRUE(contains(error([](auto& c) {
                         c.dataset = "image-folder";
                         c.validation = 1.5;
                       }),
                       "validation is 1.5, expected [0, 1)"));
  EXPECT_TRUE(
      contains(error([](auto& c) { c.flip = "yes"; }), "flip is 'yes', expected one of: on"));
  EXPECT_TRUE(contains(error([](auto& c) { c.epochs = 0; }), "epochs is 0, expected 1 to"));
  EXPECT_TRUE(
      contains(error([](auto& c) { c.batch_size = -1; }), "batch_size is -1, expected 1 to"));
  EXPECT_TRUE(contains(error([](auto& c) { c.data_dir = "caf\xe9"; }), "expected UTF-8"));
  EXPECT_TRUE(contains(error([](auto& c) { c.drop_path = 1.0; }), "drop_path is 1"));
}

TEST(RunConfig, WhatIsWrongIsAnErrorOfAValue) {
  const auto refuse = [](auto&& change) {
    RunConfig config;
    change(config);
    EXPECT_THROW(config.resolve(), c10::ValueError);
  };
  refuse([](auto& c) { c.model = "lenet6"; });
  refuse([](auto& c) { c.batch_size = 0; });
  refuse([](auto& c) { c.optimizer_options = "{"; });
  // Of the optimizer, found before there is one.
  refuse([](auto& c) { c.optimizer_options = R"({"lr": -1})"; });
  refuse([](auto& c) { c.optimizer_options = R"({"momentun": 0.9})"; });
  refuse([](auto& c) {
    c.optimizer = "sam";
    c.optimizer_options = R"({"base": "adam", "betas": [2, 3]})";
  });
}

TEST(RunConfig, SomeOfARunMayChangeWhenItGoesOn) {
  RunConfig there;
  there.epochs = 3;
  there.batch_size = 128;
  there.device = "cuda";
  there.precision = "tf32";
  there.deterministic = true;
  there.threads = 4;
  auto config = there;
  config.epochs = 9;
  config.patience = 2;
  config.threads = 2;
  config.data_dir = "elsewhere";
  config.device = "cpu";
  config.precision = "fp32";  // the CPU has no tf32
  config.deterministic = false;
  EXPECT_TRUE(obstacles_to_going_on(config, there).empty());

  config.epochs = 2;
  config.batch_size = 7;
  config.optimizer_options = R"({"lr": 0.5})";
  std::string obstacles;
  for (const auto& each : obstacles_to_going_on(config, there)) obstacles += each.text() + "\n";
  EXPECT_EQ(obstacles,
            "optimizer option lr is 0.5, there it is absent\n"
            "batch_size is 7, there it is 128\n"
            "epochs is 2, there it is 3\n");
}

TEST(RunConfig, PrecisionStaysWhereTheDeviceDoes) {
  RunConfig there;
  there.precision = "bf16";
  const RunConfig config;
  ASSERT_EQ(obstacles_to_going_on(config, there).size(), 1U);
  EXPECT_EQ(obstacles_to_going_on(config, there)[0].field, "precision");
}

TEST(RunSettings, ImageWorkIsAGpusWhereImagesAreMoreThanCroppedAndFlipped) {
  auto config = RunConfig();
  config.device = "cuda:1";
  config.precision = "bf16";
  config.memory_format = "channels-last";
  const auto shared = [&](const adaact::AugmentOptions& augment, const std::string& work) {
    adaact::LoaderOptions options;
    options.augment = augment;
    share_image_work(options, config, work);
    return options;
  };
  adaact::AugmentOptions photographs;
  photographs.resized_crop.emplace();
  EXPECT_EQ(shared(photographs, "cpu").device, torch::kCPU);
  EXPECT_EQ(shared({}, "gpu").device, torch::kCPU);
  const auto options = shared(photographs, "gpu");
  EXPECT_EQ(options.device, torch::Device("cuda:1"));
  EXPECT_EQ(options.dtype, torch::kBFloat16);
  EXPECT_EQ(options.layout, adaact::ImageLayout::ChannelsLast);
  EXPECT_FALSE(options.decode_at_once);
  EXPECT_TRUE(shared(photographs, "nvjpeg").decode_at_once);
  config.device = "cpu";
  EXPECT_EQ(shared(photographs, "gpu").device, torch::kCPU);
}

TEST(RunSettings, AreInAConfigurationOrHaveTheirDefaults) {
  const auto read = [](const std::string& text) {
    return adaact::RunSettings::from_json(text, "some.json");
  };
  EXPECT_EQ(read(RunConfig().to_json()).keep_checkpoints, 1);
  const auto settings = read(R"({"settings": {"save_best": true, "checkpoint_every": 7}})");
  EXPECT_TRUE(settings.save_best);
  EXPECT_EQ(settings.checkpoint_every, 7);
  EXPECT_EQ(settings.workers, 1);
  const auto error = [&](const std::string& text) {
    return error_of([&] { read(R"({"settings": )" + text + "}"); });
  };
  EXPECT_TRUE(contains(error("3"), "the settings in some.json cannot be followed"));
  EXPECT_TRUE(contains(error(R"({"workers": 1.5})"), "workers is 1.5, expected a whole number"));
  EXPECT_TRUE(contains(error(R"({"graph": 1})"), "graph is 1, expected true or false"));
  EXPECT_TRUE(contains(error(R"({"image_work": 1})"), "image_work is 1, expected a text"));
  EXPECT_TRUE(contains(error(R"({"warp": 9})"), "there is no 'warp'"));
}

}  // namespace
