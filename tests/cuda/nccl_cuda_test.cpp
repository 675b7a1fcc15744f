// One rank whose sums go through NCCL, captured in CUDA graphs too, against none. Skips, visibly, where there is no GPU
// or no NCCL.

#include <memory>
#include <vector>

#include <ATen/cuda/CUDAGraph.h>
#include <adaact/ranks/nccl.h>
#include <adaact/train/training_run.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cuda/optimizer_cases.h"
#include "support/errors.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact;
using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::kOptimizerCases;
using adaact::testing::OptimizerCase;
using adaact::testing::repeatable_metrics;
using adaact::testing::TemporaryFolder;

std::shared_ptr<Communicator> one_rank() {
  return nccl_communicator(single_process(), torch::Device(torch::kCUDA, 0));
}

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    if (!has_nccl()) GTEST_SKIP() << "a build without NCCL";
  }
};

TEST_F(Nccl, TheSumOfOneRankIsWhatItBrought) {
  const auto ranks = one_rank();
  EXPECT_EQ(ranks->size(), 1);
  EXPECT_FALSE(ranks->is_alone());
  std::vector<torch::Tensor> tensors;
  std::vector<torch::Tensor> expected;
  for (const auto dtype : {torch::kFloat32, torch::kFloat64, torch::kFloat16, torch::kBFloat16,
                           torch::kInt64, torch::kInt32, torch::kInt8, torch::kUInt8, torch::kBool,
                           torch::kComplexFloat, torch::kComplexDouble}) {
    const auto values = torch::arange(21).remainder(3).view({3, 7}).to(dtype);
    expected.push_back(values);
    tensors.push_back(values.to(torch::kCUDA));
  }
  tensors.push_back(torch::empty({0}, torch::kCUDA));
  expected.push_back(torch::empty({0}));
  tensors.push_back(torch::full({2}, 5, torch::kInt64));  // on the CPU
  expected.push_back(tensors.back().clone());
  ranks->sum(tensors);
  ranks->broadcast(tensors, /*root=*/0);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_TRUE(tensors[i].cpu().equal(expected[i])) << expected[i].dtype();
  }
  ranks->wait_for_stream();
}

TEST_F(Nccl, SaysWhatItCannotAdd) {
  const auto ranks = one_rank();
  const auto error = [&](const torch::Tensor& tensor) {
    return error_of([&] { ranks->sum({tensor}); });
  };
  EXPECT_TRUE(contains(error(torch::zeros({2}, torch::dtype(torch::kInt16).device(torch::kCUDA))),
                       "cannot add tensors of dtype Short"));
  EXPECT_TRUE(contains(error(torch::zeros({2, 3}, torch::kCUDA).t()), "is not contiguous"));
  EXPECT_TRUE(contains(error_of([&] { ranks->broadcast({}, 1); }), "root is 1, expected 0 to 0"));
  EXPECT_TRUE(contains(error_of([] { nccl_communicator(single_process(), torch::kCPU); }),
                       "device is cpu"));
  EXPECT_TRUE(contains(error_of([] { nccl_communicator(nullptr, torch::kCUDA); }), "no ranks"));
}

TEST_F(Nccl, ASumIsPartOfAGraphBesideOtherWork) {
  const auto ranks = one_rank();
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  const auto values = torch::zeros({1000}, torch::kCUDA);
  const auto others = torch::zeros({1000}, torch::kCUDA);
  const auto work = [&] {
    values.add_(1.0);
    const auto sum = ranks->begin_sum({values});
    others.add_(2.0);
    sum->wait();
    values.mul_(2.0);
  };
  work();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  work();
  graph.capture_end();
  graph.replay();
  graph.replay();
  ranks->wait_for_stream();
  EXPECT_TRUE(values.cpu().equal(torch::full({1000}, 14.0)));  // ((1·2 + 1)·2 + 1)·2
  EXPECT_TRUE(others.cpu().equal(torch::full({1000}, 6.0)));
}

class NcclTraining : public Nccl, public ::testing::WithParamInterface<OptimizerCase> {
 protected:
  RunConfig config() const {
    RunConfig config;
    config.model = "resnet20";
    config.dataset = "synthetic";
    config.limit_train = 300;
    config.limit_test = 70;
    config.batch_size = 32;
    config.epochs = 2;
    config.optimizer = GetParam().optimizer;
    config.optimizer_options = GetParam().options;
    config.device = "cuda";
    config.precision = "bf16";
    config.memory_format = "channels-last";
    config.deterministic = true;
    return config;
  }

  void expect_equal_with_and_without(bool graph) {
    TrainingCallback silent;
    RunSettings settings;
    settings.graph = graph;
    TrainingRun(config(), folder_.path() / "none", settings).run(silent);
    settings.ranks = one_rank();
    TrainingRun(config(), folder_.path() / "nccl", settings).run(silent);
    EXPECT_EQ(bytes_of(folder_.path() / "nccl/model.safetensors"),
              bytes_of(folder_.path() / "none/model.safetensors"));
    EXPECT_EQ(repeatable_metrics(folder_.path() / "nccl"),
              repeatable_metrics(folder_.path() / "none"));
  }

  TemporaryFolder folder_;
};

TEST_P(NcclTraining, InGraphsIsToTheBitWhatItIsWithout) { expect_equal_with_and_without(true); }
TEST_P(NcclTraining, StepByStepIsToTheBitWhatItIsWithout) { expect_equal_with_and_without(false); }

INSTANTIATE_TEST_SUITE_P(Optimizers, NcclTraining, ::testing::ValuesIn(kOptimizerCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
