// What a pass has shown, reported again without the pass, and an update that is done as it was recorded:
// what CUDA graphs leave to the host, and what they take from it.

#include <functional>

#include <adaact/adaact.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/registry.h>
#include <gtest/gtest.h>

#include "support/small_models.h"

namespace {

using adaact::ObservingOptimizer;

struct Case {
  std::string name;
  std::string optimizer;
  std::string options;
  torch::ScalarType dtype = torch::kFloat32;
};

/// A loss that is linear in the weights: a pass over the same rows shows the same, whatever they are.
class ReplayedObservations : public ::testing::TestWithParam<Case> {
 protected:
  struct Rows {
    torch::Tensor x = torch::randn({10, 6}, torch::kFloat64);
    torch::Tensor target = torch::randn({10, 3}, torch::kFloat64);
  };
  /// What a captured pass leaves.
  struct Recorded {
    torch::Tensor weight_gradient;
    torch::Tensor bias_gradient;
    std::function<void()> report;
  };

  ReplayedObservations() { torch::manual_seed(4); }

  static void pass(torch::nn::Linear& layer, const Rows& rows) {
    (layer->forward(rows.x) * rows.target).sum(1).mean().backward();
  }

  static std::unique_ptr<torch::optim::Optimizer> optimizer_of(torch::nn::Linear& layer) {
    return adaact::make_optimizer(GetParam().optimizer, *layer, GetParam().options);
  }

  static Recorded record(torch::nn::Linear& layer, ObservingOptimizer& optimizer,
                         const Rows& rows) {
    optimizer.zero_grad();
    pass(layer, rows);
    return {layer->weight.grad().clone(), layer->bias.grad().clone(), optimizer.take_for_replay()};
  }
};

TEST_P(ReplayedObservations, CountAsThoseOfAPass) {
  torch::nn::Linear with_passes(6, 3);
  torch::nn::Linear with_reports(6, 3);
  with_passes->to(torch::kFloat64);
  with_reports->to(torch::kFloat64);
  adaact::testing::copy_values(with_passes, with_reports);
  const auto one = optimizer_of(with_passes);
  const auto other = optimizer_of(with_reports);
  auto& observing = dynamic_cast<ObservingOptimizer&>(*other);

  const Rows rows[2];
  const Recorded recorded[2]{record(with_reports, observing, rows[0]),
                             record(with_reports, observing, rows[1])};
  for (const int turn : {0, 1, 1, 0, 1, 0, 0}) {
    one->zero_grad();
    pass(with_passes, rows[turn]);
    one->step();
    with_reports->weight.mutable_grad() = recorded[turn].weight_gradient;
    with_reports->bias.mutable_grad() = recorded[turn].bias_gradient;
    const auto observed = observing.layers_to_observe();
    if (observed.empty() || observed[0]) recorded[turn].report();
    other->step();
    ASSERT_TRUE(torch::equal(with_reports->weight, with_passes->weight));
    ASSERT_TRUE(torch::equal(with_reports->bias, with_passes->bias));
  }
  const auto ours = dynamic_cast<adaact::HasNamedState&>(*other).export_state();
  const auto theirs = dynamic_cast<adaact::HasNamedState&>(*one).export_state();
  EXPECT_FALSE(theirs.entries.at("weight").empty());
  for (const auto& [parameter, entries] : theirs.entries) {
    for (const auto& [name, tensor] : entries) {
      EXPECT_TRUE(torch::equal(ours.entries.at(parameter).at(name), tensor)) << parameter << name;
    }
  }
}

TEST_P(ReplayedObservations, AreTakenOutOfTheStep) {
  torch::nn::Linear layer(6, 3);
  layer->to(torch::kFloat64);
  const auto optimizer = optimizer_of(layer);
  auto& observing = dynamic_cast<ObservingOptimizer&>(*optimizer);
  pass(layer, Rows());
  (void)observing.take_for_replay();
  optimizer->step();
  EXPECT_FALSE(observing.coverage()[0].observed);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, ReplayedObservations,
    ::testing::Values(Case{"adaact", "adaact", R"({"lr": 0.1})"},
                      Case{"full_covariance", "adaact",
                           R"({"lr": 0.1, "covariance": "full", "refresh_period": 3})"},
                      Case{"foof", "foof", R"({"lr": 0.1, "covariance_period": 2})"},
                      Case{"kfac", "kfac", R"({"lr": 0.1, "covariance_period": 2})"}),
    [](const auto& info) { return info.param.name; });

TEST(LayersToObserve, AreThoseWithFactorsThatAreDue) {
  torch::nn::Linear layer(6, 3);
  adaact::Foof optimizer(*layer, adaact::FoofOptions(0.1).covariance_period(3));
  std::vector<bool> observed;
  for (int step = 0; step < 5; ++step) {
    observed.push_back(optimizer.layers_to_observe()[0]);
    optimizer.zero_grad();
    layer->forward(torch::randn({4, 6})).sum().backward();
    optimizer.step();
  }
  EXPECT_EQ(observed, (std::vector<bool>{true, false, false, true, false}));
}

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

class RecordedUpdate : public ::testing::TestWithParam<Case> {
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
        Case{"full_covariance", "adaact", R"({"covariance": "full", "refresh_period": 3})"},
        Case{"foof", "foof", R"({"covariance_period": 2, "inverse_period": 4})"},
        Case{"kfac", "kfac", R"({"covariance_period": 2, "inverse_period": 4})"},
        Case{"kfac_cholesky", "kfac",
             R"({"covariance_period": 2, "inverse_period": 4, "inverse": "cholesky"})"},
        Case{"kfac_clipped", "kfac", R"({"inverse_period": 4, "kl_clip": 1e-6})"},
        Case{"kfac_in_double_precision", "kfac", R"({"inverse_period": 4})", torch::kFloat64},
        Case{"foof_without_momentum", "foof",
             R"({"inverse_period": 4, "momentum": 0, "kl_clip": 1e-6})"},
        Case{"full_covariance_in_bfloat16", "adaact",
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
