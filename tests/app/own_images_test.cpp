// From photographs of one's own to a model, as docs/tool.md has it.

#include <fstream>
#include <string>

#include <adaact/train/run_config.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/tool.h"
#include "data/image_files.h"
#include "support/errors.h"

namespace {

using namespace adaact::testing;
namespace fs = std::filesystem;

class OwnImages : public ::testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder_.at(name); }

  /// Classes that a glance tells apart, of 8 images each.
  void write_images(const fs::path& folder) const {
    for (int i = 0; i < 8; ++i) {
      const auto shade = static_cast<std::uint8_t>(10 * i);
      const auto name = "sub/" + std::to_string(i) + ".jpg";
      write_jpeg(folder / "red" / name, plain_image(40, 48, {200, shade, shade}));
      write_jpeg(folder / "blue" / name, plain_image(48, 40, {shade, shade, 200}));
    }
  }

  ToolFolder folder_;
};

TEST_F(OwnImages, OneFolderIsEnough) {
  write_images(at("images"));
  std::ofstream(at("images") / "red" / "notes.txt") << "of the summer";
  const auto out = at("run").string();
  const auto trained = folder_.run({"train", "--out", out, "--data-dir", at("images").string(),
                                    "--validation", "0.25", "--epochs", "2", "--image-size", "16"});
  ASSERT_EQ(trained.code, 0) << trained.printed;
  EXPECT_TRUE(contains(trained.printed, "notes.txt"));  // what was left out is said
  const auto config = adaact::RunConfig::read(at("run") / "config.json");
  EXPECT_EQ(config.dataset, "image-folder");
  EXPECT_EQ(config.model, "resnet20");
  EXPECT_EQ(config.batch_size, 16);
  EXPECT_EQ(config.validation, 0.25);

  const auto evaluated = folder_.run({"eval", "--run", out, "--json"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.printed;
  EXPECT_EQ(nlohmann::json::parse(evaluated.printed)["images"], 4) << "the quarter, and no more";

  write_images(at("later"));
  const auto later =
      folder_.run({"eval", "--run", out, "--data-dir", at("later").string(), "--json"});
  ASSERT_EQ(later.code, 0) << later.printed;
  EXPECT_EQ(nlohmann::json::parse(later.printed)["images"], 16);

  const auto of_weights =
      folder_.run({"eval", "--weights", (at("run") / "model.safetensors").string(), "--data-dir",
                   at("later").string(), "--json"});
  ASSERT_EQ(of_weights.code, 0) << of_weights.printed;
  EXPECT_EQ(of_weights.printed, later.printed) << "at the size that the weights are for";
}

TEST_F(OwnImages, ARecipeIsOptionsAndThenAFile) {
  write_images(at("images"));
  const auto trained = folder_.run({"train",
                                    "--out",
                                    at("run").string(),
                                    "--data-dir",
                                    at("images").string(),
                                    "--validation",
                                    "0.25",
                                    "--model",
                                    "resnet20",
                                    "--image-size",
                                    "16",
                                    "--epochs",
                                    "2",
                                    "--crop",
                                    "resized",
                                    "--crop-scale",
                                    "0.25,1",
                                    "--crop-ratio",
                                    "0.8",
                                    "--rand-augment",
                                    "rand-m7-mstd0.5-inc1",
                                    "--erase",
                                    "0.25",
                                    "--mixup",
                                    "0.8",
                                    "--cutmix",
                                    "1",
                                    "--loss",
                                    "bce",
                                    "--ema",
                                    "0.9",
                                    "--lr",
                                    "0.1",
                                    "--warmup-epochs",
                                    "1",
                                    "--warmup-lr",
                                    "0.02",
                                    "--min-lr",
                                    "0.001"});
  ASSERT_EQ(trained.code, 0) << trained.printed;
  const auto config = adaact::RunConfig::read(at("run") / "config.json");
  EXPECT_EQ(config.crop, "resized");
  EXPECT_EQ(config.crop_scale, (std::vector<double>{0.25, 1.0}));
  EXPECT_EQ(config.resize_size, 20);
  EXPECT_EQ(config.loss, "bce");
  EXPECT_EQ(config.warmup_lr, 0.02);
  EXPECT_EQ(config.min_lr, 0.001);
  const auto file = (at("run") / "config.json").string();
  ASSERT_EQ(folder_.run({"train", "--config", file, "--out", at("again").string()}).code, 0);
  EXPECT_EQ(bytes_of(at("again") / "model.safetensors"), bytes_of(at("run") / "model.safetensors"));
  const auto plainer =
      folder_.run({"train", "--config", file, "--out", at("plainer").string(), "--resize-size",
                   "24", "--final-lr-factor", "0.5", "--epochs", "2"});
  ASSERT_EQ(plainer.code, 0) << plainer.printed;
  EXPECT_EQ(adaact::RunConfig::read(at("plainer") / "config.json").resize_size, 24);
  const auto larger = folder_.run({"train", "--config", file, "--out", at("larger").string(),
                                   "--image-size", "24", "--epochs", "2"});
  ASSERT_EQ(larger.code, 0) << larger.printed;
  EXPECT_EQ(adaact::RunConfig::read(at("larger") / "config.json").resize_size, 30);
}

TEST_F(OwnImages, ANewHeadIsSaidAndAnythingElseIsAnError) {
  write_images(at("images"));
  const Words short_run{"train",        "--data-dir", at("images").string(),
                        "--validation", "0.25",       "--image-size",
                        "16",           "--epochs",   "1"};
  const auto train = [&](const std::string& name, Words more) {
    more.insert(more.begin(), short_run.begin(), short_run.end());
    more.insert(more.end(), {"--out", at(name).string()});
    return folder_.run(more);
  };
  ASSERT_EQ(train("two", {"--model", "resnet20"}).code, 0);
  const auto weights = (at("two") / "model.safetensors").string();
  write_jpeg(at("images") / "green" / "a.jpg", plain_image(40, 48, {9, 200, 9}));
  write_jpeg(at("images") / "green" / "b.jpg", plain_image(40, 48, {9, 190, 9}));
  const auto three = train("three", {"--weights", weights});
  ASSERT_EQ(three.code, 0) << three.printed;
  EXPECT_TRUE(contains(three.printed, "is for another number of classes: it begins anew"));
  const auto other = train("other", {"--weights", weights, "--model", "resnet32"});
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(contains(other.printed, "missing: ")) << other.printed;
}

TEST_F(OwnImages, WithoutAnythingToEvaluateOnTheWayIsSaid) {
  write_images(at("images"));
  const auto outcome =
      folder_.run({"train", "--out", at("run").string(), "--data-dir", at("images").string()});
  EXPECT_NE(outcome.code, 0);
  EXPECT_TRUE(contains(outcome.printed, "has no val/ or test/ folder: `--validation 0.1` splits"))
      << outcome.printed;
  EXPECT_FALSE(fs::exists(at("run")));
}

}  // namespace
