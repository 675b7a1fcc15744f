// Optimizers of TorchScript modules over many steps: the executor profiles the first run and then
// differentiates optimised graphs by itself.

#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "optim/factored_support.h"
#include "support/errors.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::script_parameters;

/// make_mlp() as a TorchScript module with the same values.
torch::jit::Module scripted(torch::nn::Sequential& model) {
  const auto values = snapshot(*model);
  const auto layer = [&](const char* name, std::size_t weight) {
    torch::jit::Module linear(name);
    linear.register_parameter("weight", values[weight].clone().requires_grad_(), false);
    linear.register_parameter("bias", values[weight + 1].clone().requires_grad_(), false);
    linear.define(R"(
def forward(self, x):
  return torch.linear(x, self.weight, self.bias)
)");
    return linear;
  };
  torch::jit::Module script("model");
  script.register_module("first", layer("first", 0));
  script.register_module("second", layer("second", 2));
  script.define(R"(
def forward(self, x):
  return self.second.forward(torch.tanh(self.first.forward(x)))
)");
  return script;
}

std::vector<torch::Tensor> values_of(const torch::jit::Module& script) {
  std::vector<torch::Tensor> values;
  for (const auto& parameter : script.parameters()) values.push_back(parameter.detach().clone());
  return values;
}

void script_step(torch::jit::Module& script, torch::optim::Optimizer& optimizer,
                 const Batch& batch) {
  optimizer.zero_grad();
  cross_entropy(script.forward({batch.x}).toTensor(), batch.y).backward();
  optimizer.step();
}

/// Eight steps of the module and of its TorchScript must be the same.
template <typename Optimizer, typename Options>
void expect_same_steps(const Options& options) {
  torch::manual_seed(12);
  auto model = make_mlp();
  auto script = scripted(model);
  Optimizer optimizer(*model, options);
  Optimizer script_optimizer(script_parameters(script), options);
  for (int t = 0; t < 8; ++t) {
    const auto batch = row_batch(10);
    train_step(model, optimizer, batch);
    script_step(script, script_optimizer, batch);
    expect_close(values_of(script), snapshot(*model), 1e-10);
  }
  for (const auto& parameter : script_optimizer.coverage()) {
    EXPECT_TRUE(parameter.observed) << parameter.name << ": " << parameter.reason;
  }
}

TEST(TorchScriptSteps, FoofEqualsItselfOnTheModule) {
  expect_same_steps<adaact::Foof>(plain_foof().lr(0.1).damping(0.1));
}

TEST(TorchScriptSteps, AdaActEqualsItselfOnTheModule) {
  expect_same_steps<adaact::AdaAct>(adaact::AdaActOptions(0.1));
}

TEST(TorchScriptSteps, KfacEqualsItselfOnTheModuleWhereAutogradRecords) {
  const torch::jit::GraphOptimizerEnabledGuard without(false);
  expect_same_steps<adaact::Kfac>(plain_kfac().lr(0.1).damping(0.1));
}

TEST(TorchScriptSteps, KfacTakesAWeightThatAScriptDetachesOnPurpose) {
  const torch::jit::GraphOptimizerEnabledGuard without(false);
  torch::jit::Module script("model");
  script.register_parameter("weight", torch::randn({3, 6}).requires_grad_(), false);
  script.define(R"(
def forward(self, x):
  return torch.linear(x, self.weight) + torch.linear(x, self.weight.detach())
)");
  adaact::Kfac optimizer(script_parameters(script), adaact::KfacOptions(0.1));
  for (int t = 0; t < 3; ++t) script_step(script, optimizer, row_batch(10, torch::kFloat32));
  EXPECT_EQ(optimizer.steps(), 3);
}

TEST(TorchScriptSteps, KfacRefusesAStepWhoseOutputGradientsAreHidden) {
  torch::manual_seed(12);
  auto model = make_mlp();
  auto script = scripted(model);
  adaact::Kfac optimizer(script_parameters(script), adaact::KfacOptions(0.1));
  script_step(script, optimizer, row_batch(10));  // the executor still profiles
  for (const auto& parameter : optimizer.coverage()) EXPECT_TRUE(parameter.observed);

  for (int t = 0; t < 2; ++t) {
    const auto before = values_of(script);
    const auto error = error_of([&] { script_step(script, optimizer, row_batch(10)); });
    EXPECT_TRUE(
        contains(error, "Kfac: the output gradient of the layer with weight 'first.weight'"));
    EXPECT_TRUE(contains(error, "torch::jit::setGraphExecutorOptimize(false)"));
    expect_bit_identical(values_of(script), before);
    EXPECT_EQ(optimizer.steps(), 1);
  }
  for (const auto& parameter : optimizer.coverage()) {
    EXPECT_FALSE(parameter.observed) << parameter.name;
    EXPECT_TRUE(contains(parameter.reason, "TorchScript")) << parameter.reason;
  }
}

}  // namespace
