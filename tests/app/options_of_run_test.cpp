// What a run's config.json gives, beside what is typed.

#include <algorithm>
#include <fstream>
#include <limits>

#include <adaact/train/run_config.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/command_line.h"
#include "app/tool.h"
#include "app/training_options.h"
#include "data/image_files.h"
#include "support/temporary_folder.h"

namespace {

using adaact::RunConfig;
using namespace adaact::testing;
namespace app = adaact::app;
namespace fs = std::filesystem;

class OptionsOfRun : public ::testing::Test {
 protected:
  OptionsOfRun() {
    for (const auto* name : {"cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"}) {
      write_png(folder_.path() / "images" / name, plain_image(2, 2, {1, 2, 3}));
    }
  }

  /// Everything that a recipe such as ImageNet's has.
  RunConfig full_recipe() const {
    RunConfig config;
    config.data_dir = (folder_.path() / "images").string();
    config.validation = 0.5;
    config.image_size = 16;
    config.crop = "resized";
    config.crop_scale = {0.25, 1.0};
    config.crop_ratio = 0.8;
    config.rand_augment = "rand-m7-mstd0.5-inc1";
    config.erase = 0.25;
    config.mixup = 0.8;
    config.cutmix = 1.0;
    config.epochs = 9;
    config.schedule = "cosine";
    config.min_lr = 0.001;
    config.warmup_epochs = 2;
    config.warmup_lr = 0.02;
    config.resolve();
    return config;
  }

  /// What a command makes of such a file and of what is typed beside it.
  RunConfig read(const RunConfig& stored, const Words& typed) const {
    const auto file = folder_.path() / "config.json";
    std::ofstream(file) << stored.to_json();
    RunConfig config;
    CLI::App tool;
    tool.fallthrough();
    auto* command = tool.add_subcommand("train", "");
    app::add_model_and_data_options(*command, config);
    app::add_step_options(*command, config);
    app::add_schedule_options(*command, config);
    app::refuse_empty_values(*command);
    app::add_config_file(tool);
    Words words{"train", "--config", file.string()};
    words.insert(words.end(), typed.begin(), typed.end());
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    tool.parse(words);
    config.resolve();
    return config;
  }
  RunConfig with(const Words& typed) const { return read(full_recipe(), typed); }

  TemporaryFolder folder_;
};

TEST_F(OptionsOfRun, WithoutAWordAreThoseOfTheFile) {
  EXPECT_EQ(with({}).to_json(), full_recipe().to_json());
}

TEST_F(OptionsOfRun, GiveWayToNoAugmentation) {
  const auto config = with({"--no-augment"});
  EXPECT_FALSE(config.augment);
  EXPECT_EQ(config.crop, "none");
  EXPECT_TRUE(config.crop_scale.empty());
  EXPECT_EQ(config.rand_augment, "");
  EXPECT_EQ(config.erase, 0.0);
  EXPECT_EQ(config.mixup, 0.0);
  EXPECT_EQ(config.cutmix, 0.0);
}

TEST_F(OptionsOfRun, GiveWayToAnotherCrop) {
  for (const std::string crop : {"none", "padded"}) {
    const auto config = with({"--crop", crop});
    EXPECT_EQ(config.crop, crop);
    EXPECT_TRUE(config.crop_scale.empty());
    EXPECT_EQ(config.rand_augment, "rand-m7-mstd0.5-inc1") << "which goes with any crop";
  }
  EXPECT_EQ(with({"--crop", "auto"}).crop, "padded");
  EXPECT_EQ(with({"--crop", "resized"}).crop_scale, (std::vector<double>{0.25, 1.0}));
}

TEST_F(OptionsOfRun, GiveWayToAnotherSchedule) {
  for (const Words& typed :
       {Words{"--schedule", "constant"}, Words{"--schedule", "step", "--milestones", "3"}}) {
    const auto config = with(typed);
    EXPECT_EQ(config.schedule, typed[1]);
    EXPECT_EQ(config.min_lr, 0.0);
  }
  EXPECT_EQ(with({"--schedule", "cosine-per-step"}).min_lr, 0.001);
  auto to_a_part = full_recipe();
  to_a_part.min_lr = 0.0;
  to_a_part.final_lr_factor = 0.1;
  EXPECT_EQ(read(to_a_part, {"--schedule", "constant"}).final_lr_factor, 0.0);
  auto by_step = to_a_part;
  by_step.final_lr_factor = 0.0;
  by_step.schedule = "multistep";
  by_step.milestones = {3, 6};
  EXPECT_TRUE(read(by_step, {"--schedule", "cosine"}).milestones.empty());
  EXPECT_EQ(read(by_step, {}).milestones, by_step.milestones);
}

TEST_F(OptionsOfRun, GiveWayToNoWarmUp) {
  const auto config = with({"--warmup-epochs", "0"});
  EXPECT_EQ(config.warmup_epochs, 0);
  EXPECT_EQ(config.warmup_lr, std::numeric_limits<double>::infinity());
  EXPECT_EQ(with({"--warmup-epochs", "3"}).warmup_lr, 0.02);
}

TEST_F(OptionsOfRun, GiveWayToWhatTurnsOneOff) {
  EXPECT_EQ(with({"--rand-augment", "none"}).rand_augment, "");
  EXPECT_EQ(with({"--rand-augment", "rand-m5-inc1"}).rand_augment, "rand-m5-inc1");
  EXPECT_EQ(with({"--erase", "0"}).erase, 0.0);
  EXPECT_EQ(with({"--mixup", "0"}).mixup, 0.0);
  EXPECT_EQ(with({"--cutmix", "0"}).cutmix, 0.0);
}

}  // namespace
