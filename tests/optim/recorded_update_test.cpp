// The part of an update that is the same in every step, done as it was recorded: what a CUDA graph takes
// from the host.

#include <functional>

#include <adaact/adaact.h>
#include <adaact/optim/registry.h>
#include <gtest/gtest.h>

#include "support/small_models.h"

namespace {

using adaact::ObservingOptimizer;

struct Update {
  std::string name;
  std::string optimizer;
  std::string options;
  torch::ScalarType dtype = torch::kFloat32;
};

/// Does what it was first told to do, as a graph would, and looks whether the memory is still the same.
/// What the work reads from the host anew, a graph would not: that is for the tests on a GPU.
class Recorder {
 public:
  ObservingOptimizer::UpdateRunner runner() {
    return [this](const auto& work, const auto& memory) {
      if (!work_) {
        work_ = work;
        memory_ = memory;
      }
      EXPECT_EQ(memory, memory_);
      ++replays;
      work_();
    };
  }
  int replays = 0;

 private:
  std::function<void()> work_;
  std::vector<const void*> memory_;
};

class RecordedUpdate : public ::testing::TestWithParam<Update> {
 protected:
  static torch::nn::Sequential make_model() {
    torch::nn::Sequential model(torch::nn::Conv2d(2, 4, 3), torch::nn::Flatten(),
                                torch::nn::Linear(16, 3));
    model->to(GetParam().dtype);
    return model;
  }
  static torch::Tensor make_images() { return torch::randn({8, 2, 4, 4}).to(GetParam().dtype); }
  static std::unique_ptr<torch::optim::Optimizer> optimizer_of(torch::nn::Sequential& model) {
    return adaact::make_optimizer(GetParam().optimizer, *model, GetParam().options);
  }
  /// The rate falls, and gradients stay in their place.
  static void step(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer,
                   const torch::Tensor& x, int number) {
    for (auto& group : optimizer.param_groups()) group.options().set_lr(0.1 / number);
    for (auto& parameter : model->parameters()) {
      if (parameter.grad().defined()) parameter.mutable_grad().zero_();
    }
    model->forward(x).square().mean().backward();
    optimizer.step();
  }
};

TEST_P(RecordedUpdate, IsTheUpdateOfEveryStep) {
  torch::manual_seed(4);
  auto plain = make_model();
  auto recorded = make_model();
  adaact::testing::copy_values(plain, recorded);
  const auto one = optimizer_of(plain);
  const auto other = optimizer_of(recorded);
  Recorder recorder;
  for (int number = 1; number <= 9; ++number) {
    const auto x = make_images();
    step(plain, *one, x, number);
    if (number == 2) {  // the first step makes the state
      dynamic_cast<ObservingOptimizer&>(*other).set_update_runner(recorder.runner());
    }
    step(recorded, *other, x, number);
    for (std::size_t i = 0; i < plain->parameters().size(); ++i) {
      ASSERT_TRUE(torch::equal(recorded->parameters()[i], plain->parameters()[i])) << number;
    }
  }
  EXPECT_EQ(recorder.replays, 8);
}

TEST_P(RecordedUpdate, OfOtherParametersHasOtherMemory) {
  torch::manual_seed(4);
  auto model = make_model();
  const auto optimizer = optimizer_of(model);
  std::vector<const void*> memory;
  const auto keep_memory = [&](const auto& work, const auto& of_work) {
    memory = of_work;
    work();
  };
  dynamic_cast<ObservingOptimizer&>(*optimizer).set_update_runner(keep_memory);
  const auto x = make_images();
  for (int number = 1; number <= 2; ++number) step(model, *optimizer, x, number);
  const auto before = memory;
  EXPECT_FALSE(before.empty());
  model->parameters()[1].set_requires_grad(false);  // the convolution's bias
  step(model, *optimizer, x, 3);
  EXPECT_NE(memory, before);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, RecordedUpdate,
    ::testing::Values(
        Update{"full_covariance", "adaact", R"({"covariance": "full", "refresh_period": 3})"},
        Update{"foof", "foof", R"({"covariance_period": 2, "inverse_period": 4})"},
        Update{"kfac", "kfac", R"({"covariance_period": 2, "inverse_period": 4})"},
        Update{"kfac_cholesky", "kfac",
               R"({"covariance_period": 2, "inverse_period": 4, "inverse": "cholesky"})"},
        Update{"kfac_clipped", "kfac", R"({"inverse_period": 4, "kl_clip": 1e-6})"},
        Update{"kfac_in_double_precision", "kfac", R"({"inverse_period": 4})", torch::kFloat64},
        Update{"foof_without_momentum", "foof",
               R"({"inverse_period": 4, "momentum": 0, "kl_clip": 1e-6})"},
        Update{"full_covariance_in_bfloat16", "adaact",
               R"({"covariance": "full", "refresh_period": 3})", torch::kBFloat16}),
    [](const auto& info) { return info.param.name; });

TEST(RecordedUpdateOfGroups, HasARateForEach) {
  torch::manual_seed(4);
  torch::nn::Sequential model(torch::nn::Linear(6, 4), torch::nn::Linear(4, 3));
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(model[0]->parameters());
  groups.emplace_back(model[1]->parameters());
  adaact::Kfac optimizer(*model, groups, adaact::KfacOptions(0.1));
  Recorder recorder;
  for (int number = 0; number < 3; ++number) {
    optimizer.param_groups()[0].options().set_lr(number == 2 ? 0.0 : 0.1);
    for (auto& parameter : model->parameters()) {
      if (parameter.grad().defined()) parameter.mutable_grad().zero_();
    }
    if (number == 1) optimizer.set_update_runner(recorder.runner());
    const auto before = model->parameters()[0].clone();
    const auto other_before = model->parameters()[2].clone();
    model->forward(torch::randn({8, 6})).square().mean().backward();
    optimizer.step();
    EXPECT_EQ(torch::equal(model->parameters()[0], before), number == 2) << number;
    EXPECT_FALSE(torch::equal(model->parameters()[2], other_before)) << number;
  }
}

}  // namespace
