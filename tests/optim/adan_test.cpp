#include <limits>

#include <adaact/adaact.h>
#include <gtest/gtest.h>

#include "optim/adan/adan_update.h"
#include "support/errors.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using adaact::Adan;
using adaact::AdanOptions;
using adaact::AdanScalars;

using adaact::AdanTensors;
using adaact::testing::all_close;
using adaact::testing::copy_values;
using adaact::testing::expect_close;
using adaact::testing::make_mlp;
using adaact::testing::row_batch;
using adaact::testing::snapshot;
using adaact::testing::tolerance;
using adaact::testing::train_step;

AdanTensors random_tensors(int64_t count, torch::ScalarType dtype) {
  const auto state = dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  const auto draw = [&](torch::ScalarType type) { return torch::randn({1, count}).to(type); };
  return {draw(dtype), draw(dtype), draw(state), draw(state), draw(state).abs_(), draw(state)};
}

AdanTensors copy_of(const AdanTensors& tensors) {
  return {tensors.theta.clone(), tensors.g.clone(), tensors.m.clone(),
          tensors.v.clone(),     tensors.n.clone(), tensors.previous.clone()};
}

TEST(AdanUpdate, TheLoopEqualsTheReference) {
  torch::manual_seed(0);
  for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kHalf}) {
    for (const bool proximal : {true, false}) {
      for (const int64_t count : {1, 7, 1000, 70001}) {
        const AdanScalars step{
            {0.01, 0.98, 0.92, 0.99, 1e-8, 0.02, std::numeric_limits<double>::infinity(), proximal},
            0.5,
            0.1,
            0.3,
            0.05};
        const auto expected = random_tensors(count, dtype);
        const auto actual = copy_of(expected);
        adan_update_reference(expected, step);
        adan_update_cpu(actual, step);
        // A result may round to the other neighbour where θ is narrow.
        const auto theta_tolerance = dtype == torch::kBFloat16 ? 4e-3
                                     : dtype == torch::kHalf   ? 5e-4
                                                               : tolerance(dtype);
        EXPECT_TRUE(all_close(actual.theta, expected.theta, theta_tolerance)) << dtype << count;
        EXPECT_TRUE(all_close(actual.m, expected.m, tolerance(dtype)));
        EXPECT_TRUE(all_close(actual.v, expected.v, tolerance(dtype)));
        EXPECT_TRUE(all_close(actual.n, expected.n, tolerance(dtype)));
        EXPECT_TRUE(all_close(actual.previous, expected.previous, tolerance(dtype)));
      }
    }
  }
}

TEST(AdanUpdate, WhatIsLeftOfABetaCloseToOneIsExactInFloat32) {
  torch::manual_seed(0);
  const AdanScalars step{{0.01, 0.999, 0.999, 0.999, 1e-8, 0.0}, 1.0, 1e-3, 1e-3, 1e-3};
  const auto expected = random_tensors(1000, torch::kFloat32);
  for (const auto& average : {expected.m, expected.v, expected.n}) average.zero_();
  const auto actual = copy_of(expected);
  adan_update_reference(expected, step);
  adan_update_cpu(actual, step);
  EXPECT_TRUE(all_close(actual.m, expected.m, 5e-7));  // (1 − β₁) g and the like
  EXPECT_TRUE(all_close(actual.v, expected.v, 5e-7));
  EXPECT_TRUE(all_close(actual.n, expected.n, 5e-7));
}

/// The equations, written out for one parameter.
struct AdanEquations {
  explicit AdanEquations(const torch::Tensor& start) : theta(start.detach().clone()) {}

  void step(const torch::Tensor& gradient, double norm) {
    ++t;
    const auto g = gradient * std::min(1.0, max_norm / (norm + eps));
    const auto diff = t == 1 ? torch::zeros_like(g) : g - previous;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * diff;
    n = beta3 * n + (1 - beta3) * (g + beta2 * diff).square();
    const auto u = (m / (1 - std::pow(beta1, t)) + beta2 * v / (1 - std::pow(beta2, t))) /
                   (n.sqrt() / std::sqrt(1 - std::pow(beta3, t)) + eps);
    theta = proximal ? (theta - lr * u) / (1 + lr * decay) : (1 - lr * decay) * theta - lr * u;
    previous = g;
  }

  torch::Tensor theta, previous;
  torch::Tensor m = torch::zeros({}, torch::kFloat64), v = m, n = m;
  double lr = 0.02, beta1 = 0.98, beta2 = 0.92, beta3 = 0.99, eps = 1e-8, decay = 0.1;
  double max_norm = std::numeric_limits<double>::infinity();
  bool proximal = true;
  int t = 0;
};

TEST(Adan, FollowsTheEquations) {
  for (const bool proximal : {true, false}) {
    for (const double max_norm : {0.3, std::numeric_limits<double>::infinity()}) {
      torch::manual_seed(1);
      auto model = make_mlp();
      Adan optimizer(
          *model, AdanOptions(0.02).weight_decay(0.1).proximal(proximal).max_grad_norm(max_norm));
      std::vector<AdanEquations> expected;
      for (const auto& parameter : model->parameters()) {
        auto& equations = expected.emplace_back(parameter);
        equations.proximal = proximal;
        equations.max_norm = max_norm;
      }
      for (int i = 0; i < 6; ++i) {
        train_step(model, optimizer, row_batch(8));
        double squares = 0.0;
        for (const auto& p : model->parameters()) squares += p.grad().square().sum().item<double>();
        for (std::size_t p = 0; p < expected.size(); ++p) {
          expected[p].step(model->parameters()[p].grad(), std::sqrt(squares));
          EXPECT_TRUE(all_close(model->parameters()[p].detach(), expected[p].theta, 1e-11));
        }
      }
    }
  }
}

TEST(Adan, AParameterCountsItsOwnSteps) {
  // The first step of a parameter that appears late is as long as any first step.
  torch::manual_seed(2);
  torch::nn::Linear layer(3, 2);
  Adan optimizer(*layer, AdanOptions(0.1).weight_decay(0.0));
  layer->bias.set_requires_grad(false);
  for (int i = 0; i < 20; ++i) {
    optimizer.zero_grad();
    layer->forward(torch::randn({4, 3})).square().mean().backward();
    optimizer.step();
  }
  layer->bias.set_requires_grad(true);
  const auto before = layer->bias.detach().clone();
  optimizer.zero_grad();
  layer->forward(torch::randn({4, 3})).square().mean().backward();
  optimizer.step();
  EXPECT_TRUE(all_close((layer->bias.detach() - before).abs(), torch::full({2}, 0.1), 1e-5));
}

TEST(Adan, NarrowParametersTrainWithWideState) {
  torch::manual_seed(3);
  auto wide = make_mlp(torch::kFloat32);
  auto narrow = make_mlp(torch::kFloat32);
  copy_values(wide, narrow);
  narrow->to(torch::kBFloat16);
  Adan one(*wide, AdanOptions(0.01));
  Adan other(*narrow, AdanOptions(0.01));
  for (int i = 0; i < 5; ++i) {
    const auto batch = row_batch(8, torch::kFloat32);
    train_step(wide, one, batch);
    train_step(narrow, other, {batch.x.to(torch::kBFloat16), batch.y});
  }
  expect_close(snapshot(*narrow), snapshot(*wide), 0.1);
  for (const auto& [key, state] : other.state()) {
    EXPECT_EQ(static_cast<const adaact::AdanParamState&>(*state).exp_avg().scalar_type(),
              torch::kFloat32);
  }
}

}  // namespace
