// Training runs on a GPU: interrupted and resumed, and several at once. Skips, visibly, where there is no
// GPU.

#include <csignal>

#include <adaact/train/seed_runs.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "cuda/optimizer_cases.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact;
using adaact::testing::bytes_of;
using adaact::testing::kOptimizerCases;
using adaact::testing::OptimizerCase;
using adaact::testing::repeatable_metrics;
using adaact::testing::TemporaryFolder;
namespace fs = std::filesystem;

/// Ten steps an epoch, the last one partial.
RunConfig small_config(const OptimizerCase& optimizer_case) {
  RunConfig config;
  config.model = "resnet20";
  config.dataset = "synthetic";
  config.limit_train = 300;
  config.limit_test = 70;
  config.batch_size = 32;
  config.epochs = 3;
  config.optimizer = optimizer_case.optimizer;
  config.optimizer_options = optimizer_case.options;
  config.device = "cuda";
  config.precision = "bf16";
  config.memory_format = "channels-last";
  config.deterministic = true;
  return config;
}

/// Sends this process a signal after a step.
class SignalAt : public TrainingCallback {
 public:
  explicit SignalAt(std::int64_t step) : step_(step) {}
  void on_step(const Trainer& /*trainer*/, const StepMetrics& metrics) override {
    if (metrics.step == step_) std::raise(SIGTERM);
  }

 private:
  std::int64_t step_;
};

class TrainingRunCuda : public ::testing::TestWithParam<OptimizerCase> {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }

  RunResult train(const RunConfig& config, const std::string& name, const RunSettings& settings) {
    TrainingCallback silent;
    return TrainingRun(config, at(name), settings).run(silent);
  }
  fs::path at(const std::string& name) const { return folder_.path() / name; }

  void expect_equal_runs(const fs::path& ours, const fs::path& theirs) const {
    EXPECT_EQ(bytes_of(ours / "model.safetensors"), bytes_of(theirs / "model.safetensors"));
    EXPECT_EQ(repeatable_metrics(ours), repeatable_metrics(theirs));
  }

  /// Interrupted a few times at odd places.
  void expect_resumable(const RunConfig& config, RunSettings settings) {
    settings.checkpoint_every = 4;
    train(config, "whole", settings);
    settings.resume = true;
    for (const std::int64_t step : {3, 10, 17}) {
      SignalAt signal(step);
      const auto result = TrainingRun(config, at("resumed"), settings).run(signal);
      EXPECT_EQ(result.status, RunResult::Status::Interrupted);
    }
    EXPECT_EQ(train(config, "resumed", settings).status, RunResult::Status::Finished);
    expect_equal_runs(at("resumed"), at("whole"));
  }

  TemporaryFolder folder_;
};

TEST_P(TrainingRunCuda, ResumedIsAsUninterrupted) {
  expect_resumable(small_config(GetParam()), RunSettings());
}

TEST_P(TrainingRunCuda, ResumedIsAsUninterruptedWithoutGraphs) {
  RunSettings settings;
  settings.graph = false;
  expect_resumable(small_config(GetParam()), settings);
}

TEST_P(TrainingRunCuda, SeedsAtOnceAreAsOneByOne) {
  const auto config = small_config(GetParam());
  SeedRuns runs(config, {0, 1, 2, 3}, at("together"));
  EXPECT_EQ(runs.obstacle_to_concurrency(), "");
  const auto outcomes =
      runs.run([](std::uint64_t) { return std::make_unique<TrainingCallback>(); });
  for (const auto& outcome : outcomes) {
    SCOPED_TRACE("seed " + std::to_string(outcome.seed));
    if (outcome.error) std::rethrow_exception(outcome.error);
    auto alone = config;
    alone.seed = outcome.seed;
    const auto name = "alone-" + std::to_string(outcome.seed);
    train(alone, name, {});
    expect_equal_runs(runs.folder_of(outcome.seed), at(name));
  }
}

TEST_P(TrainingRunCuda, OneOfSeveralSeedsMayFailAndASignalEndsAll) {
  fs::create_directories(at("seeds") / "seed-1" / "letters");
  RunSettings settings;
  settings.resume = true;
  settings.checkpoint_every = 4;
  const auto config = small_config(GetParam());
  SeedRuns runs(config, {0, 1, 2}, at("seeds"), settings);
  const auto interrupted =
      runs.run([](std::uint64_t) { return std::make_unique<SignalAt>(/*step=*/12); });
  EXPECT_TRUE(interrupted[1].error);
  for (const auto i : {0U, 2U}) {
    EXPECT_EQ(interrupted[i].result.status, RunResult::Status::Interrupted);
  }
  runs.run([](std::uint64_t) { return std::make_unique<TrainingCallback>(); });
  train(config, "alone", {});
  expect_equal_runs(runs.folder_of(0), at("alone"));
}

INSTANTIATE_TEST_SUITE_P(Optimizers, TrainingRunCuda, ::testing::ValuesIn(kOptimizerCases),
                         [](const auto& info) { return info.param.name; });

using DropPathCuda = TrainingRunCuda;

TEST_P(DropPathCuda, ResumedDrawsTheSameRandomNumbers) {
  auto config = small_config(GetParam());
  config.model = "vit_small";
  config.drop_path = 0.3;
  expect_resumable(config, RunSettings());
}

INSTANTIATE_TEST_SUITE_P(Optimizers, DropPathCuda, ::testing::Values(kOptimizerCases[0]),
                         [](const auto& info) { return info.param.name; });

using RecipeCuda = TrainingRunCuda;

TEST_P(RecipeCuda, ResumedIsAsUninterrupted) {
  auto config = small_config(GetParam());
  config.rand_augment = "rand-m7-mstd0.5-inc1";
  config.erase = 0.5;
  config.mixup = 0.8;
  config.cutmix = 1.0;
  config.loss = "bce";
  config.label_smoothing = 0.1;
  config.ema = 0.75;
  config.accumulation = 3;
  config.clip_norm = 1.0;
  config.epochs = 6;  // of four steps
  expect_resumable(config, RunSettings());
}

INSTANTIATE_TEST_SUITE_P(Optimizers, RecipeCuda,
                         ::testing::Values(kOptimizerCases[0], kOptimizerCases[7]),
                         [](const auto& info) { return info.param.name; });

}  // namespace
