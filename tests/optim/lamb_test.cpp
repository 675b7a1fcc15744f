#include <limits>

#include <adaact/adaact.h>
#include <gtest/gtest.h>

#include "optim/lamb/lamb_update.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using adaact::Lamb;
using adaact::LambOptions;
using adaact::LambScalars;

using adaact::LambTensors;
using adaact::testing::all_close;
using adaact::testing::make_mlp;
using adaact::testing::row_batch;
using adaact::testing::tolerance;
using adaact::testing::train_step;

TEST(LambUpdate, TheLoopEqualsTheReference) {
  torch::manual_seed(0);
  for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kHalf}) {
    const auto state = dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
    for (const bool trust_clip : {true, false}) {
      for (const int64_t count : {1, 7, 1000, 70001}) {
        const LambScalars step{{0.01, 0.9, 0.999, 1e-6, 0.02,
                                std::numeric_limits<double>::infinity(), true, trust_clip},
                               0.5,
                               0.1,
                               0.05};
        const auto draw = [&](torch::ScalarType type) { return torch::randn({1, count}).to(type); };
        const LambTensors expected{draw(dtype), draw(dtype), draw(state), draw(state).abs_()};
        const LambTensors actual{expected.theta.clone(), expected.g.clone(), expected.m.clone(),
                                 expected.v.clone()};
        lamb_update_reference(expected, step);
        lamb_update_cpu(actual, step);
        const auto theta_tolerance = dtype == torch::kBFloat16 ? 8e-3
                                     : dtype == torch::kHalf   ? 1e-3
                                                               : tolerance(dtype);
        EXPECT_TRUE(all_close(actual.theta, expected.theta, theta_tolerance)) << dtype << count;
        EXPECT_TRUE(all_close(actual.m, expected.m, tolerance(dtype)));
        EXPECT_TRUE(all_close(actual.v, expected.v, tolerance(dtype)));
      }
    }
  }
}

TEST(LambUpdate, WhatIsLeftOfABetaCloseToOneIsExactInFloat32) {
  torch::manual_seed(0);
  const LambScalars step{{0.01, 0.999, 0.999, 1e-6, 0.0}, 1.0, 1e-3, 1e-3};
  const auto theta = torch::randn({1, 1000});
  const auto g = torch::randn({1, 1000});
  const LambTensors expected{theta.clone(), g, torch::zeros_like(g), torch::zeros_like(g)};
  const LambTensors actual{theta.clone(), g, torch::zeros_like(g), torch::zeros_like(g)};
  lamb_update_reference(expected, step);
  lamb_update_cpu(actual, step);
  EXPECT_TRUE(all_close(actual.m, expected.m, 5e-7));  // (1 − β₁) g
  EXPECT_TRUE(all_close(actual.v, expected.v, 5e-7));  // (1 − β₂) g²
}

/// The equations, written out for one parameter.
struct LambEquations {
  LambEquations(const torch::Tensor& start, const LambOptions& its_options)
      : options(its_options), theta(start.detach().clone()) {}

  void step(const torch::Tensor& gradient, double norm) {
    ++t;
    const auto [beta1, beta2] = options.betas();
    const auto g = gradient / std::max(1.0, norm / options.max_grad_norm());
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g.square();
    const auto u = (m / (1 - std::pow(beta1, t))) /
                       (v.sqrt() / std::sqrt(1 - std::pow(beta2, t)) + options.eps()) +
                   options.weight_decay() * theta;
    double r = 1.0;
    if (options.weight_decay() != 0.0 || options.always_adapt()) {
      const auto theta_norm = theta.norm().item<double>();
      const auto u_norm = u.norm().item<double>();
      if (theta_norm > 0.0 && u_norm > 0.0) r = theta_norm / u_norm;
      if (options.trust_clip()) r = std::min(r, 1.0);
    }
    ratios.push_back(r);
    theta = theta - options.lr() * r * u;
  }

  LambOptions options;
  torch::Tensor theta;
  torch::Tensor m = torch::zeros({}, torch::kFloat64), v = m;
  std::vector<double> ratios;
  int t = 0;
};

void expect_the_equations(const LambOptions& options, double input_scale = 1.0) {
  torch::manual_seed(1);
  auto model = make_mlp();
  {
    const torch::NoGradGuard no_grad;
    model->parameters()[3].zero_();     // a bias of norm 0: r is 1
    model->parameters()[0].mul_(10.0);  // a weight whose r exceeds 1
  }
  Lamb optimizer(*model, options);
  std::vector<LambEquations> expected;
  for (const auto& parameter : model->parameters()) expected.emplace_back(parameter, options);
  for (int i = 0; i < 6; ++i) {
    auto batch = row_batch(8);
    batch.x *= input_scale;
    train_step(model, optimizer, batch);
    double squares = 0.0;
    for (const auto& p : model->parameters()) squares += p.grad().square().sum().item<double>();
    for (std::size_t p = 0; p < expected.size(); ++p) {
      expected[p].step(model->parameters()[p].grad(), std::sqrt(squares));
      EXPECT_TRUE(all_close(model->parameters()[p].detach(), expected[p].theta, 1e-11));
    }
  }
  EXPECT_EQ(expected[3].ratios[0], 1.0);
  if (options.weight_decay() != 0.0 && !options.trust_clip()) {
    EXPECT_GT(expected[0].ratios[0], 1.0);
  }
}

TEST(Lamb, FollowsTheEquations) { expect_the_equations(LambOptions(0.01).weight_decay(0.1)); }

TEST(Lamb, TrustClipKeepsTheRatioBelowOne) {
  expect_the_equations(LambOptions(0.01).weight_decay(0.1).trust_clip(true));
}

TEST(Lamb, WithoutDecayTheRatioIsNotUsed) {
  expect_the_equations(LambOptions(0.01).weight_decay(0.0));
}

TEST(Lamb, AlwaysAdaptUsesItWithoutDecayToo) {
  expect_the_equations(LambOptions(0.01).weight_decay(0.0).always_adapt(true));
}

TEST(Lamb, ALargeGradientIsClippedAsAWhole) {
  expect_the_equations(LambOptions(0.01).weight_decay(0.1).max_grad_norm(0.05), 3.0);
}

TEST(Lamb, NoLimitOnTheGradient) {
  expect_the_equations(
      LambOptions(0.01).weight_decay(0.1).max_grad_norm(std::numeric_limits<double>::infinity()),
      3.0);
}

}  // namespace
