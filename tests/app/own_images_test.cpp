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
