// Every optimizer of the registry on a GPU against the same on the CPU. Skips, visibly, where there is
// none.

#include <sstream>

#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;

class EveryOptimizerCuda : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(71);
  }

  static void step(SmallNet& model, torch::optim::Optimizer& optimizer, const Batch& batch) {
    const auto device = model->fc->weight.device();
    optimizer.step([&] {
      optimizer.zero_grad();
      auto loss = cross_entropy(model->forward(batch.x.to(device)), batch.y.to(device));
      loss.backward();
      return loss;
    });
  }

  static std::vector<torch::Tensor> on_cpu(const SmallNet& model) {
    auto values = snapshot(*model);
    for (auto& value : values) value = value.cpu();
    return values;
  }

  static std::unique_ptr<torch::optim::Optimizer> make(SmallNet& model) {
    return adaact::make_optimizer(GetParam(), *model);
  }
};

TEST_P(EveryOptimizerCuda, TrainsAsOnTheCpu) {
  SmallNet cpu;
  cpu->to(torch::kFloat64);
  SmallNet gpu;
  gpu->to(torch::kFloat64);
  copy_values(cpu, gpu);
  gpu->to(torch::kCUDA);
  const auto one = make(cpu);
  const auto other = make(gpu);
  for (int i = 0; i < 12; ++i) {
    const auto batch = image_batch(8);
    step(cpu, *one, batch);
    step(gpu, *other, batch);
  }
  expect_close(on_cpu(gpu), on_cpu(cpu), 1e-8);
}

TEST_P(EveryOptimizerCuda, StateSavedOnTheCpuGoesOnOnTheGpu) {
  SmallNet cpu;
  cpu->to(torch::kFloat64);
  const auto one = make(cpu);
  for (int i = 0; i < 3; ++i) step(cpu, *one, image_batch(8));
  SmallNet gpu;
  gpu->to(torch::kFloat64);
  copy_values(cpu, gpu);
  gpu->to(torch::kCUDA);
  const auto other = make(gpu);
  std::stringstream file;
  adaact::named_state(*one).save(file);
  adaact::named_state(*other).load(file);
  for (int i = 0; i < 3; ++i) {
    const auto batch = image_batch(8);
    step(cpu, *one, batch);
    step(gpu, *other, batch);
  }
  expect_close(on_cpu(gpu), on_cpu(cpu), 1e-8);
}

TEST_P(EveryOptimizerCuda, FollowsAModelToTheGpu) {
  if (GetParam() == "sgd" || GetParam() == "adam" || GetParam() == "adamw" || GetParam() == "sam") {
    GTEST_SKIP() << "LibTorch's own keep their state where it was made";
  }
  SmallNet model;
  model->to(torch::kFloat64);
  SmallNet stays;
  stays->to(torch::kFloat64);
  copy_values(model, stays);
  const auto one = make(model);
  const auto other = make(stays);
  for (int i = 0; i < 6; ++i) {
    if (i == 3) model->to(torch::kCUDA);
    const auto batch = image_batch(8);
    step(model, *one, batch);
    step(stays, *other, batch);
  }
  expect_close(on_cpu(model), on_cpu(stays), 1e-8);
}

TEST_P(EveryOptimizerCuda, ANonFiniteGradientIsRejected) {
  SmallNet model;
  model->to(torch::kCUDA);
  const auto optimizer = make(model);
  auto batch = image_batch(8, torch::kFloat32);
  step(model, *optimizer, batch);
  const auto before = snapshot(*model);
  batch.x[0][0][0][0] = std::nan("");
  EXPECT_THROW(step(model, *optimizer, batch), adaact::NonFiniteError);
  expect_bit_identical(snapshot(*model), before);
}

TEST_P(EveryOptimizerCuda, AParameterThatChangedItsShapeIsNamedAndNothingElseMoves) {
  SmallNet model;
  model->to(torch::kCUDA);
  const auto optimizer = make(model);
  step(model, *optimizer, image_batch(8, torch::kFloat32));
  model->fc->weight.set_data(torch::randn({1000, 54}, torch::kCUDA));
  model->fc->bias.set_data(torch::randn({1000}, torch::kCUDA));
  model->fc->weight.mutable_grad() = torch::Tensor();
  model->fc->bias.mutable_grad() = torch::Tensor();
  const auto before = on_cpu(model);
  EXPECT_TRUE(contains(error_of([&] { step(model, *optimizer, image_batch(8, torch::kFloat32)); }),
                       "'fc.weight' has shape [1000, 54], expected [5, 54]"));
  expect_bit_identical(on_cpu(model), before);
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryOptimizerCuda,
                         ::testing::ValuesIn(adaact::optimizer_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
