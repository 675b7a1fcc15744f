#include <sstream>

#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "observe/recording_listener.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::LayerMap;
using adaact::script_parameters;

/// A TorchScript module that went through a file, as one exported from Python does.
torch::jit::Module loaded_module() {
  torch::jit::Module conv("conv");
  conv.register_parameter("weight", torch::randn({4, 2, 3, 3}).requires_grad_(), false);
  conv.register_parameter("bias", torch::randn({4}).requires_grad_(), false);
  conv.define(R"(
def forward(self, x):
  return torch.conv2d(x, self.weight, self.bias, [1, 1], [1, 1])
)");
  torch::jit::Module fc("fc");
  fc.register_parameter("weight", torch::randn({3, 4}).requires_grad_(), false);
  fc.register_parameter("bias", torch::randn({3}).requires_grad_(), false);
  fc.define(R"(
def forward(self, x):
  return torch.linear(x, self.weight, self.bias)
)");
  torch::jit::Module model("model");
  model.register_module("conv", conv);
  model.register_module("fc", fc);
  model.define(R"(
def forward(self, x):
  return self.fc.forward(torch.relu(self.conv.forward(x)).mean([2, 3]))
)");
  std::stringstream file;
  model.save(file);
  return torch::jit::load(file);
}

TEST(TorchScript, LoadedModuleIsSeenInEveryForward) {
  auto model = loaded_module();
  model.train();
  Watch watch{LayerMap(script_parameters(model))};
  // The executor profiles the first runs and then rewrites the graph: weights arrive detached.
  for (int run = 0; run < 5; ++run) {
    watch.listener->inputs.clear();
    const auto x = torch::randn({2, 2, 6, 6});
    model.forward({x}).toTensor().sum().backward();
    ASSERT_EQ(watch.weights(), (Names{"conv.weight", "fc.weight"})) << "run " << run;
    EXPECT_TRUE(bit_identical(watch.inputs()[0].input, x));
    EXPECT_EQ(watch.inputs()[0].use.geometry.padding_before, (std::vector<int64_t>{1, 1}));
  }
  watch.observer.rethrow_failure();
}

TEST(TorchScript, UsesThatItDifferentiatesItselfAreReportedAsUnrecorded) {
  auto model = loaded_module();
  model.train();
  Watch watch{LayerMap(script_parameters(model))};
  for (int run = 0; run < 5; ++run) {
    watch.listener->gradients.clear();
    watch.listener->unrecorded.clear();
    model.forward({torch::randn({2, 2, 6, 6})}).toTensor().sum().backward();
    EXPECT_EQ(watch.listener->gradients.size() + watch.listener->unrecorded.size(), 2U);
  }
  EXPECT_GT(watch.listener->unrecorded.size(), 0U);  // which of the two is up to it
}

TEST(TorchScript, OperatorsWithOtherValuesOnTheStackAreSeen) {
  // The interpreter shows operators its whole stack, here with the first product below the second.
  torch::jit::Module model("model");
  model.register_parameter("first", torch::randn({3, 4}).requires_grad_(), false);
  model.register_parameter("second", torch::randn({3, 4}).requires_grad_(), false);
  model.register_parameter("bias", torch::randn({3}).requires_grad_(), false);
  model.define(R"(
def forward(self, x):
  return torch.mm(x, self.first.t()) + torch.addmm(self.bias, x, self.second.t())
)");
  Watch watch{LayerMap(script_parameters(model))};
  for (int run = 0; run < 3; ++run) {
    watch.listener->inputs.clear();
    model.forward({torch::randn({2, 4})});
    EXPECT_EQ(watch.weights(), (Names{"first", "second"})) << "run " << run;
  }
}

TEST(TorchScript, ModuleMovedToFloat64IsStillSeen) {
  auto model = loaded_module();
  Watch watch{LayerMap(script_parameters(model))};
  for (int run = 0; run < 3; ++run) model.forward({torch::randn({2, 2, 6, 6})});
  model.to(torch::kFloat64);
  watch.listener->inputs.clear();
  for (int run = 0; run < 3; ++run) model.forward({torch::randn({2, 2, 6, 6}, torch::kFloat64)});
  EXPECT_EQ(watch.inputs().size(), 6U);
}

}  // namespace
