// What a pass has shown, reported again without the pass: what a CUDA graph leaves to the host.

#include <adaact/adaact.h>
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

/// A loss that is linear in the weights: every pass over the same rows shows the same.
class ReplayedObservations : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int kSteps = 7;

  ReplayedObservations() {
    torch::manual_seed(4);
    x_ = torch::randn({10, 6}, torch::kFloat64);
    target_ = torch::randn({10, 3}, torch::kFloat64);
  }

  void pass(torch::nn::Linear& layer) const {
    (layer->forward(x_) * target_).sum(1).mean().backward();
  }

  static std::unique_ptr<torch::optim::Optimizer> optimizer_of(torch::nn::Linear& layer) {
    return adaact::make_optimizer(GetParam().optimizer, *layer, GetParam().options);
  }

  torch::Tensor x_;
  torch::Tensor target_;
};

TEST_P(ReplayedObservations, CountAsThoseOfAPass) {
  torch::nn::Linear with_passes(6, 3);
  torch::nn::Linear with_reports(6, 3);
  with_passes->to(torch::kFloat64);
  with_reports->to(torch::kFloat64);
  adaact::testing::copy_values(with_passes, with_reports);
  const auto one = optimizer_of(with_passes);
  const auto other = optimizer_of(with_reports);

  pass(with_reports);
  const auto report = dynamic_cast<ObservingOptimizer&>(*other).take_for_replay();
  for (int step = 0; step < kSteps; ++step) {
    one->zero_grad();
    pass(with_passes);
    one->step();
    if (dynamic_cast<ObservingOptimizer&>(*other).layers_to_observe().empty() ||
        dynamic_cast<ObservingOptimizer&>(*other).layers_to_observe()[0]) {
      report();
    }
    other->step();
    ASSERT_TRUE(torch::equal(with_reports->weight, with_passes->weight)) << "step " << step;
    ASSERT_TRUE(torch::equal(with_reports->bias, with_passes->bias)) << "step " << step;
  }
}

TEST_P(ReplayedObservations, AreTakenOutOfTheStep) {
  torch::nn::Linear layer(6, 3);
  layer->to(torch::kFloat64);
  const auto optimizer = optimizer_of(layer);
  auto& observing = dynamic_cast<ObservingOptimizer&>(*optimizer);
  pass(layer);
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
