// What a pass has shown, reported again without the pass: what a CUDA graph leaves to the host.

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

}  // namespace
