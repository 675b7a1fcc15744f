#include <adaact/train/training_run.h>

#include <csignal>
#include <fstream>
#include <map>

#include <adaact/io/safetensors.h>
#include <adaact/models/weights.h>
#include <adaact/optim/registry.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "support/temporary_folder.h"

namespace {

using adaact::EpochMetrics;
using adaact::RunConfig;
using adaact::RunResult;
using adaact::RunSettings;
using adaact::StepMetrics;
using adaact::TrainingCallback;
using adaact::TrainingRun;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::TemporaryFolder;
using nlohmann::json;
namespace fs = std::filesystem;

/// Six steps an epoch, the last one partial.
RunConfig small_config() {
  RunConfig config;
  config.model = "lenet5";
  config.dataset = "synthetic";
  config.limit_train = 90;
  config.limit_test = 40;
  config.batch_size = 16;
  config.epochs = 3;
  config.threads = 1;
  return config;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<json> lines_of(const fs::path& folder) {
  std::ifstream file(folder / "metrics.jsonl");
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

/// What must repeat: everything but times.
std::vector<json> repeatable(const fs::path& folder) {
  auto lines = lines_of(folder);
  for (auto& line : lines) {
    for (const char* timed : {"seconds", "wait_seconds", "images_per_second"}) line.erase(timed);
  }
  return lines;
}

class TrainingRunTest : public ::testing::Test {
 protected:
  RunResult train(const RunConfig& config, const std::string& name, TrainingCallback& callback,
                  const RunSettings& settings = {}) {
    return TrainingRun(config, folder_.path() / name, settings).run(callback);
  }
  RunResult train(const RunConfig& config, const std::string& name,
                  const RunSettings& settings = {}) {
    TrainingCallback silent;
    return train(config, name, silent, settings);
  }
  fs::path at(const std::string& name) const { return folder_.path() / name; }

  TemporaryFolder folder_;
};

/// Sends this process a signal after a step.
class SignalAt : public TrainingCallback {
 public:
  SignalAt(std::int64_t step, int signal) : step_(step), signal_(signal) {}
  void on_step(const adaact::Trainer& /*trainer*/, const StepMetrics& metrics) override {
    if (metrics.step == step_) std::raise(signal_);
  }

 private:
  std::int64_t step_;
  int signal_;
};

RunSettings resuming() {
  RunSettings settings;
  settings.resume = true;
  return settings;
}

TEST_F(TrainingRunTest, LeavesAWholeFolder) {
  EXPECT_EQ(train(small_config(), "run").status, RunResult::Status::Finished);
  const auto last = lines_of(at("run")).back();
  EXPECT_EQ(last["kind"], "epoch");
  EXPECT_EQ(last["step"], 18);
  EXPECT_EQ(last["second_moments"].size(), 5U);  // layers of LeNet-5
  for (const char* name : {"config.json", "metrics.jsonl", "model.safetensors"}) {
    EXPECT_TRUE(fs::exists(at("run") / name)) << name;
  }
  const auto model = adaact::TensorFile::read(at("run") / "model.safetensors",
                                              adaact::TensorFile::Checksum::Required);
  EXPECT_EQ(json::parse(model.metadata.at("classes")).size(), 10U);
  std::vector<std::int64_t> steps;
  for (const auto& line : lines_of(at("run"))) {
    if (line["kind"] == "step") steps.push_back(line["step"]);
  }
  ASSERT_EQ(steps.size(), 18U);
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i], static_cast<int>(i) + 1);
}

TEST_F(TrainingRunTest, EqualRunsGiveEqualBytes) {
  RunSettings more_workers;
  more_workers.workers = 3;
  train(small_config(), "one");
  train(small_config(), "other", more_workers);
  EXPECT_EQ(bytes_of(at("one") / "model.safetensors"), bytes_of(at("other") / "model.safetensors"));
  EXPECT_EQ(repeatable(at("one")), repeatable(at("other")));
}

TEST_F(TrainingRunTest, AnInterruptedRunResumesBitForBit) {
  for (const std::string optimizer : {"adaact", "sgd", "kfac", "sam"}) {
    auto config = small_config();
    config.optimizer = optimizer;
    train(config, optimizer + "-whole");
    const auto name = optimizer + "-parts";
    int signal = SIGINT;
    for (const std::int64_t step : {2, 6, 7, 15}) {  // in and at the end of epochs
      SignalAt interrupt(step, signal);
      const auto result = train(config, name, interrupt, resuming());
      EXPECT_EQ(result.status, RunResult::Status::Interrupted);
      EXPECT_EQ(result.signal, signal);
      signal = SIGTERM;
    }
    EXPECT_EQ(train(config, name, resuming()).status, RunResult::Status::Finished);
    EXPECT_EQ(bytes_of(at(name) / "model.safetensors"),
              bytes_of(at(optimizer + "-whole") / "model.safetensors"));
    EXPECT_EQ(repeatable(at(name)), repeatable(at(optimizer + "-whole")));
  }
}

TEST_F(TrainingRunTest, WorkAfterTheLastCheckpointIsDoneAgainAndWrittenOnce) {
  class Fail : public TrainingCallback {
    void on_step(const adaact::Trainer& /*trainer*/, const StepMetrics& metrics) override {
      if (metrics.step == 8) throw std::runtime_error("pulled the plug");
    }
  } fail;
  RunSettings settings = resuming();
  settings.checkpoint_every = 3;
  error_of([&] { train(small_config(), "parts", fail, settings); });
  EXPECT_EQ(lines_of(at("parts")).size(), 9U);  // 8 steps and an epoch
  train(small_config(), "parts", settings);
  train(small_config(), "whole");
  EXPECT_EQ(repeatable(at("parts")), repeatable(at("whole")));
}

TEST_F(TrainingRunTest, AFinishedRunIsFinished) {
  train(small_config(), "run");
  const auto before = bytes_of(at("run") / "metrics.jsonl");
  EXPECT_EQ(train(small_config(), "run", resuming()).status, RunResult::Status::AlreadyFinished);
  EXPECT_EQ(bytes_of(at("run") / "metrics.jsonl"), before);
}

TEST_F(TrainingRunTest, AFolderThatExistsNeedsResume) {
  train(small_config(), "run");
  EXPECT_TRUE(contains(error_of([&] { train(small_config(), "run"); }), "exists already"));
}

TEST_F(TrainingRunTest, AnotherConfigurationShowsItsDifferences) {
  train(small_config(), "run");
  auto other = small_config();
  other.batch_size = 8;
  other.optimizer_options = R"({"lr": 0.5})";
  const auto error = error_of([&] { train(other, "run", resuming()); });
  EXPECT_TRUE(contains(error, "batch_size is 8, there it is 16"));
  EXPECT_TRUE(contains(error, "optimizer option lr is 0.5, there it is 0.1"));
}

TEST_F(TrainingRunTest, AFolderOfSomethingElseIsLeftAlone) {
  fs::create_directories(at("photos"));
  std::ofstream(at("photos") / "cat.txt") << "meow";
  EXPECT_TRUE(contains(error_of([&] { train(small_config(), "photos", resuming()); }),
                       "there is no config.json in it"));
  EXPECT_EQ(std::distance(fs::directory_iterator(at("photos")), {}), 1);
}

TEST_F(TrainingRunTest, AccumulatedBatchesEqualLargeOnes) {
  auto large = small_config();
  large.augment = false;
  large.batch_size = 32;
  large.epochs = 1;
  auto small = large;
  small.batch_size = 8;
  small.accumulation = 4;
  train(large, "large");
  train(small, "small");
  const auto one = lines_of(at("large"));
  const auto other = lines_of(at("small"));
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (one[i]["kind"] == "step") {
      EXPECT_NEAR(one[i]["loss"].get<double>(), other[i]["loss"].get<double>(), 1e-3);
    }
  }
}

TEST_F(TrainingRunTest, ClippingSmoothingAndBf16Train) {
  auto config = small_config();
  config.clip_norm = 0.5;
  config.label_smoothing = 0.1;
  config.precision = "bf16";
  config.schedule = "cosine-per-step";
  config.warmup_epochs = 1;
  train(config, "run");
  const auto lines = lines_of(at("run"));
  EXPECT_LT(lines[0]["learning_rate"], lines[4]["learning_rate"]);
  EXPECT_LT(lines.back()["train_loss"], lines[6]["train_loss"]);  // the last epoch and the first
}

TEST_F(TrainingRunTest, WeightsOfAnotherHeadAreSaidSo) {
  train(small_config(), "first");
  auto config = small_config();
  config.weights = (at("first") / "model.safetensors").string();
  EXPECT_EQ(train(config, "second").status, RunResult::Status::Finished);
}

TEST_F(TrainingRunTest, BadConfigurationsAreErrors) {
  const auto error = [&](auto&& change) {
    auto config = small_config();
    change(config);
    return error_of([&] { train(config, "bad"); });
  };
  EXPECT_TRUE(contains(error([](auto& c) { c.epochs = 0; }), "epochs is 0, expected ≥ 1"));
  EXPECT_TRUE(contains(error([](auto& c) { c.precision = "fp8"; }), "expected one of: fp32, bf16"));
  EXPECT_TRUE(contains(error([](auto& c) { c.warmup_epochs = 3; }), "warmup_epochs is 3"));
  EXPECT_FALSE(fs::exists(at("bad")));
}

}  // namespace
