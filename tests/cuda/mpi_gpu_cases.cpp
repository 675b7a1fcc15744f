// Training by ranks that share one GPU against one process: through the host's memory step by step, and in CUDA graphs
// that hold the exchange. All ranks of an MPI program run these at the same time.

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cuda/shared_gpu_ranks.h"
#include "ranks/mpi_ranks.h"
#include "support/optimizers_on_ranks.h"
#include "support/tolerance.h"
#include "support/training_by_rank.h"

namespace {

using adaact::testing::all_close;
using adaact::testing::snapshot;
namespace by_steps = adaact::testing::on_ranks_by_steps;

constexpr double kEqualToOneProcess = 1e-11;

void expect_equal(const std::vector<torch::Tensor>& actual,
                  const std::vector<torch::Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const auto ours = actual[i].to(torch::kCPU, torch::kFloat64);
    const auto theirs = expected[i].to(torch::kCPU, torch::kFloat64);
    EXPECT_TRUE(all_close(ours, theirs, kEqualToOneProcess))
        << "tensor " << i << " is off by " << (ours - theirs).abs().max().item<double>();
  }
}

void set_up_gpu() {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setBenchmarkCuDNN(false);
}

class StepsOnAGpu : public ::testing::TestWithParam<by_steps::OptimizerCase> {
 protected:
  void SetUp() override { set_up_gpu(); }

  static std::vector<torch::Tensor> trained(const std::shared_ptr<adaact::Communicator>& ranks) {
    by_steps::RankOfTraining rank(ranks, GetParam(), adaact::ShareFactors::Yes, torch::kCUDA);
    for (const auto& batch : by_steps::batches_for(GetParam().steps, torch::kCUDA)) {
      rank.step(batch, /*micro_batches=*/2, /*clip_norm=*/0.5);
    }
    return snapshot(*rank.model);
  }
};

TEST_P(StepsOnAGpu, ThroughTheHostsMemoryAreThoseOfOneProcess) {
  expect_equal(trained(adaact::mpi_communicator()), trained(adaact::single_process()));
}

INSTANTIATE_TEST_SUITE_P(Optimizers, StepsOnAGpu, ::testing::ValuesIn(by_steps::optimizer_cases()),
                         [](const auto& info) { return info.param.name; });

struct CapturedCase {
  const char* name;
  const char* optimizer;
  const char* options;
  bool sync_batchnorm;
};

void PrintTo(const CapturedCase& of, std::ostream* out) { *out << of.name; }

const CapturedCase kCapturedCases[]{
    {"AdaAct", "adaact", "{}", false},
    {"AdaActWithNorm", "adaact", "{}", true},
    {"AdaActFull", "adaact", R"({"covariance": "full", "refresh_period": 3})", false},
    {"Sgd", "sgd", "{}", false},
    {"SgdWithNorm", "sgd", "{}", true},
    {"Adam", "adam", R"({"lr": 0.01})", false},
    {"AdamW", "adamw", R"({"lr": 0.01})", false},
    {"Adan", "adan", R"({"lr": 0.01})", false},
    {"Lamb", "lamb", R"({"lr": 0.01})", false},
    {"Foof", "foof", R"({"covariance_period": 2, "inverse_period": 4})", false},
    {"Kfac", "kfac", R"({"covariance_period": 2, "inverse_period": 4, "damping": 0.1})", false},
};

class GraphsOfRanks : public ::testing::TestWithParam<CapturedCase> {
 protected:
  void SetUp() override { set_up_gpu(); }

  static ranks_training::Settings settings() {
    ranks_training::Settings settings;
    settings.optimizer = GetParam().optimizer;
    settings.options = GetParam().options;
    settings.with_norm = GetParam().sync_batchnorm;
    settings.trainer.sync_batchnorm = GetParam().sync_batchnorm;
    settings.trainer.epochs = 4;
    settings.trainer.graph = true;
    settings.trainer.device = torch::Device(torch::kCUDA, 0);
    return settings;
  }

  static void expect_as_one_process(const ranks_training::Settings& settings) {
    const auto alone = ranks_training::trained_by(adaact::single_process(), settings, nullptr);
    const auto ranks = adaact::testing::shared_gpu_ranks(adaact::mpi_communicator());
    const auto together = ranks_training::trained_by(ranks, settings, nullptr);
    EXPECT_TRUE(together.finished);
    expect_equal(together.weights, alone.weights);
    ASSERT_EQ(together.told.steps.size(), alone.told.steps.size());
    for (std::size_t i = 0; i < alone.told.steps.size(); ++i) {
      const auto& ours = together.told.steps[i];
      const auto& theirs = alone.told.steps[i];
      EXPECT_NEAR(ours.loss, theirs.loss, 1e-6 * theirs.loss);  // a float32 on each rank
      EXPECT_NEAR(ours.gradient_norm, theirs.gradient_norm, 1e-6 * theirs.gradient_norm);
      EXPECT_EQ(ours.top1, theirs.top1);
    }
    ASSERT_EQ(together.told.epochs.size(), alone.told.epochs.size());
    for (std::size_t i = 0; i < alone.told.epochs.size(); ++i) {
      const auto& ours = together.told.epochs[i];
      const auto& theirs = alone.told.epochs[i];
      EXPECT_NEAR(ours.test.loss, theirs.test.loss, 1e-6 * theirs.test.loss);
      EXPECT_EQ(ours.test.top1, theirs.test.top1);
      ASSERT_EQ(ours.second_moments.size(), theirs.second_moments.size());
      for (std::size_t layer = 0; layer < theirs.second_moments.size(); ++layer) {
        EXPECT_NEAR(ours.second_moments[layer].second, theirs.second_moments[layer].second,
                    1e-9 * theirs.second_moments[layer].second);
      }
    }
  }
};

TEST_P(GraphsOfRanks, HoldTheExchangeAndTrainAsOneProcess) { expect_as_one_process(settings()); }

INSTANTIATE_TEST_SUITE_P(Optimizers, GraphsOfRanks, ::testing::ValuesIn(kCapturedCases),
                         [](const auto& info) { return info.param.name; });

using GraphsOfLargeSteps = GraphsOfRanks;

TEST_P(GraphsOfLargeSteps, ExchangeOnceForSeveralBatchesAndClip) {
  auto large = settings();
  large.trainer.accumulation = 2;  // of five, so the last step has one
  large.trainer.clip_norm = 0.5;
  expect_as_one_process(large);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, GraphsOfLargeSteps,
                         ::testing::Values(kCapturedCases[0], kCapturedCases[10]),
                         [](const auto& info) { return info.param.name; });

}  // namespace
