#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <adaact/io/safetensors.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/tool.h"
#include "data/image_files.h"
#include "support/errors.h"
#include "support/odd_files.h"

namespace {

using namespace adaact::testing;
using adaact::TensorFile;
using nlohmann::json;
namespace fs = std::filesystem;

/// A finished run, in which files are replaced by others.
class HostileFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(folder_.run(short_training(run())).code, 0);
    write_png(picture(), plain_image(20, 20, {200, 100, 0}));
  }

  fs::path run() const { return folder_.at("run"); }
  fs::path picture() const { return folder_.at("picture.png"); }

  /// What the tool says when it refuses: one line, and an exit code that is no signal.
  std::string refusal(const Words& arguments, int expected_code = 1) const {
    const auto [code, printed] = folder_.run(arguments);
    EXPECT_EQ(code, expected_code) << printed;
    EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 1) << printed;
    return printed;
  }
  std::string prediction_refused() const {
    return refusal({"predict", "--run", run().string(), picture().string()});
  }
  std::string report_refused() const {
    return refusal({"report", run().string(), "--out", folder_.at("page.html").string()});
  }
  std::string resuming_refused() const {
    auto training = short_training(run());
    training.emplace_back("--resume");
    return refusal(training);
  }

  ToolFolder folder_;
};

TEST_F(HostileFileTest, PipesAreRefusedWhereverFilesAreRead) {
  make_pipe(picture());
  EXPECT_TRUE(contains(prediction_refused(), "picture.png is a pipe, expected a regular file"));
  make_pipe(run() / "model.safetensors");
  EXPECT_TRUE(contains(prediction_refused(), "model.safetensors is a pipe"));
  EXPECT_TRUE(contains(refusal({"eval", "--weights", (run() / "model.safetensors").string()}),
                       "model.safetensors is a pipe"));
  fs::remove(run() / "model.safetensors");
  make_pipe(run() / "metrics.jsonl");
  EXPECT_TRUE(contains(report_refused(), "metrics.jsonl is a pipe"));
  EXPECT_TRUE(contains(resuming_refused(), "metrics.jsonl is a pipe"));
  for (const auto& entry : fs::directory_iterator(run())) {
    if (entry.path().filename().string().rfind("checkpoint.", 0) == 0) make_pipe(entry.path());
  }
  EXPECT_TRUE(contains(resuming_refused(), ".safetensors is a pipe"));
  make_pipe(run() / "config.json");
  EXPECT_TRUE(contains(report_refused(), "config.json is a pipe"));
  EXPECT_TRUE(contains(resuming_refused(), "config.json is a pipe"));
}

TEST_F(HostileFileTest, DeepJsonIsRefused) {
  auto training = short_training(folder_.at("new"));
  training.insert(training.end(), {"--optimizer-options", deep_json(20'000)});
  EXPECT_TRUE(contains(refusal(training, 2), "it is nested deeper than 100 levels"));
  std::ofstream(run() / "config.json") << "{\"optimizer_options\":" << deep_json() << "}";
  EXPECT_TRUE(contains(report_refused(), "config.json is no configuration: it is nested deeper"));
  EXPECT_TRUE(contains(resuming_refused(), "it is nested deeper than 100 levels"));
  EXPECT_TRUE(contains(refusal({"eval", "--run", run().string()}), "it is nested deeper than"));
}

TEST_F(HostileFileTest, AModelThatSaysNonsenseAboutItselfIsRefused) {
  const auto weights = run() / "model.safetensors";
  const auto whole = TensorFile::read(weights);
  const auto with_input = [&](const char* field, const json& value) {
    auto file = whole;
    auto input = json::parse(file.metadata.at("input"));
    input[field] = value;
    file.metadata["input"] = input.dump();
    file.write(weights);
    return prediction_refused();
  };
  EXPECT_TRUE(contains(with_input("width", -32), "width is -32, expected 1 to 4096"));
  EXPECT_TRUE(contains(with_input("width", 1 << 30), "width is 1073741824, expected 1 to 4096"));
  EXPECT_TRUE(contains(with_input("height", 1 << 20), "height is 1048576, expected 1 to 4096"));
  EXPECT_TRUE(contains(with_input("resize", 1 << 30), "resize is 1073741824, expected 0 to 16384"));
}

TEST_F(HostileFileTest, NamesOfClassesCannotSteerTheTerminal) {
  const auto weights = run() / "model.safetensors";
  auto file = TensorFile::read(weights);
  file.metadata["classes"] = json(std::vector<std::string>(10, "\x1b[2J")).dump();
  file.write(weights);
  const auto [code, printed] =
      folder_.run({"predict", "--run", run().string(), picture().string()});
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(contains(printed, " [2J"));
  EXPECT_EQ(printed.find('\x1b'), std::string::npos);
}

}  // namespace
