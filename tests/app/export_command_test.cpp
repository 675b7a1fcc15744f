#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include "app/tool.h"
#include "support/errors.h"

namespace {

using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::short_training;
using adaact::testing::ToolFolder;
using adaact::testing::Words;
using nlohmann::json;
namespace fs = std::filesystem;

class ExportCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto trained = folder_.run(short_training(run_));
    ASSERT_EQ(trained.code, 0) << trained.printed;
  }

  std::string refusal(const Words& arguments, int expected_code) const {
    const auto [code, printed] = folder_.run(arguments);
    EXPECT_EQ(code, expected_code) << printed;
    return printed;
  }

  ToolFolder folder_;
  fs::path run_ = folder_.at("run");
};

TEST_F(ExportCommandTest, WritesTorchScriptAndSafetensors) {
  const auto file = folder_.at("model.pt");
  const auto [code, printed] =
      folder_.run({"export", "--run", run_.string(), file.string(), "--json"});
  ASSERT_EQ(code, 0) << printed;
  const auto result = json::parse(printed);
  EXPECT_EQ(result["file"], file.string());
  EXPECT_EQ(result["format"], "torchscript");
  EXPECT_EQ(result["bytes"], fs::file_size(file));
  EXPECT_EQ(result["model"], "lenet5");
  EXPECT_EQ(result["input"], (json{3, 32, 32}));
  EXPECT_LE(result["largest_difference"].get<double>(), 1e-5);
  auto script = torch::jit::load(file.string());
  const auto logits = script.forward({torch::rand({2, 3, 32, 32})}).toTensor();
  EXPECT_EQ(logits.size(1), static_cast<std::int64_t>(result["classes"].size()));

  const auto copy = folder_.at("weights.safetensors");
  const auto by_weights =
      folder_.run({"export", "--weights", (run_ / "model.safetensors").string(), copy.string()});
  EXPECT_EQ(by_weights.code, 0) << by_weights.printed;
  EXPECT_EQ(bytes_of(copy), bytes_of(run_ / "model.safetensors"));
}

TEST_F(ExportCommandTest, NothingThatIsThereIsLost) {
  const auto file = folder_.at("model.pt");
  std::ofstream(file) << "precious";
  const Words command{"export", "--run", run_.string(), file.string()};
  EXPECT_TRUE(contains(refusal(command, 1), "exists already; name another file, or --overwrite"));
  EXPECT_EQ(bytes_of(file), "precious");
  auto overwrite = command;
  overwrite.push_back("--overwrite");
  EXPECT_EQ(folder_.run(overwrite).code, 0);
  EXPECT_NE(bytes_of(file), "precious");
  const auto own = (run_ / "model.safetensors").string();
  EXPECT_TRUE(contains(refusal({"export", "--run", run_.string(), own, "--overwrite"}, 1),
                       "is what is to be exported"));
}

TEST_F(ExportCommandTest, MistakesSayWhatToDo) {
  const auto file = folder_.at("model.pt").string();
  EXPECT_TRUE(contains(refusal({"export", file}, 2), "--run or --weights is required"));
  EXPECT_TRUE(contains(refusal({"export", "--run", run_.string(), "model.onnx"}, 2),
                       "is 'model.onnx', expected a name that ends in .pt"));
  EXPECT_TRUE(contains(refusal({"export", "--run", "/etc", file}, 1), "/etc is no run"));
  EXPECT_TRUE(contains(refusal({"export", "--run", run_.string(), "/nowhere/model.pt"}, 1),
                       "/nowhere/model.pt"));
  fs::create_directory(file);
  EXPECT_TRUE(contains(refusal({"export", "--run", run_.string(), file}, 1), "is a folder"));
}

TEST_F(ExportCommandTest, WhatPythonMadeIsNotTakenForWeights) {
  const auto file = folder_.at("model.pt").string();
  ASSERT_EQ(folder_.run({"export", "--run", run_.string(), file}).code, 0);
  auto training = short_training(folder_.at("second"));
  training.insert(training.end(), {"--weights", file});
  const auto message = refusal(training, 1);
  EXPECT_TRUE(contains(message, "torch.jit.load('" + file + "', map_location='cpu')"));
  EXPECT_TRUE(contains(message, folder_.at("model.safetensors").string()));
}

}  // namespace
