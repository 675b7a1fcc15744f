// FOOF and KFAC of linear layers on problems whose answer is known, in float64.

#include <sstream>

#include <adaact/adaact.h>
#include <gtest/gtest.h>

#include "optim/factored_support.h"
#include "support/errors.h"
#include "support/libtorch.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::Foof;
using adaact::FoofOptions;
using adaact::FoofScale;
using adaact::InverseMethod;
using adaact::Kfac;
using adaact::KfacOptions;
using adaact::KfacScale;

class FactoredTest : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(5); }
};

// FOOF.

TEST_F(FactoredTest, FoofOfOneLinearLayerIsTheNewtonStep) {
  auto layer = double_linear(4, 3);
  const auto x = torch::randn({32, 4}, torch::kFloat64);
  const auto y = torch::randn({32, 3}, torch::kFloat64);
  Foof optimizer(*layer, plain_foof().damping(1e-12));
  half_squared_error(layer->forward(x), y).backward();
  optimizer.step();

  const auto rows = with_ones(x);
  const auto normal = rows.t().matmul(rows);
  const auto least_squares = at::linalg_solve(normal, rows.t().matmul(y)).t();
  EXPECT_TRUE(all_close(linear_layer(layer), least_squares, 1e-9));
}

TEST_F(FactoredTest, FoofCholeskyAndEigenAgree) {
  for (const double damping : {1e-3, 1.0}) {
    auto by_cholesky = make_mlp();
    auto by_eigen = make_mlp();
    copy_values(by_cholesky, by_eigen);
    Foof one(*by_cholesky, plain_foof().damping(damping).lr(0.1));
    Foof other(*by_eigen, plain_foof().damping(damping).lr(0.1).inverse(InverseMethod::Eigen));
    for (int i = 0; i < 3; ++i) {
      const auto batch = row_batch(10);
      train_step(by_cholesky, one, batch);
      train_step(by_eigen, other, batch);
    }
    expect_close(snapshot(*by_eigen), snapshot(*by_cholesky), 1e-10);
  }
}

TEST_F(FactoredTest, FoofMomentumAndDecayFollowTheEquations) {
  auto layer = double_linear(4, 3);
  const double lr = 0.1, mu = 0.9, decay = 0.01, damping = 0.5, beta2 = 0.95;
  Foof optimizer(*layer, FoofOptions(lr)
                             .momentum(mu)
                             .weight_decay(decay)
                             .damping(damping)
                             .beta2(beta2)
                             .covariance_period(2)
                             .inverse_period(4));
  auto theta = linear_layer(layer);
  auto buffer = torch::zeros_like(theta);
  auto a = torch::zeros({5, 5}, torch::kFloat64);
  torch::Tensor inverse;
  int updates = 0;
  for (int t = 0; t < 9; ++t) {
    const auto x = torch::randn({7, 4}, torch::kFloat64);
    const auto y = torch::randn({7, 3}, torch::kFloat64);
    optimizer.zero_grad();
    half_squared_error(layer->forward(x), y).backward();
    const auto g = linear_gradient(layer);
    optimizer.step();

    const auto rows = with_ones(x);
    if (t % 2 == 0) {
      a = beta2 * a + (1.0 - beta2) * rows.t().matmul(rows) / 7.0;
      ++updates;
    }
    if (t % 4 == 0) {
      const auto a_hat = a / (1.0 - std::pow(beta2, updates));
      inverse = at::linalg_inv(a_hat + damping * identity(5));
    }
    buffer = mu * buffer + g.matmul(inverse) + decay * theta;
    theta = theta - lr * buffer;
    EXPECT_TRUE(all_close(linear_layer(layer), theta, 1e-10)) << t;
  }
}

TEST_F(FactoredTest, FoofAuthorsScaleKeepsTheNewestAndWaitsForTheFirstInverse) {
  auto layer = double_linear(4, 3);
  const double lr = 0.1, mu = 0.9, decay = 0.01, damping = 0.5, beta2 = 0.95;
  Foof optimizer(*layer, FoofOptions(lr)
                             .momentum(mu)
                             .weight_decay(decay)
                             .damping(damping)
                             .beta2(beta2)
                             .covariance_period(2)
                             .inverse_period(4)
                             .scale(FoofScale::Authors));
  auto theta = linear_layer(layer);
  auto buffer = torch::zeros_like(theta);
  auto a = identity(5);
  auto inverse = identity(5);
  for (int t = 0; t < 9; ++t) {
    const auto x = torch::randn({7, 4}, torch::kFloat64);
    const auto y = torch::randn({7, 3}, torch::kFloat64);
    optimizer.zero_grad();
    half_squared_error(layer->forward(x), y).backward();
    const auto g = linear_gradient(layer);
    optimizer.step();

    const auto rows = with_ones(x);
    if (t % 2 == 0) a = (1.0 - beta2) * a + beta2 * rows.t().matmul(rows) / 7.0;
    if (t > 0 && t % 4 == 0) inverse = at::linalg_inv(a + damping * identity(5));
    buffer = mu * buffer + g.matmul(inverse) + decay * theta;
    theta = theta - lr * buffer;
    EXPECT_TRUE(all_close(linear_layer(layer), theta, 1e-10)) << t;
  }
}

// KFAC.

TEST_F(FactoredTest, KfacOfOneLinearLayerIsTheExplicitSolution) {
  for (const double damping : {1e-2, 1.0}) {
    auto layer = double_linear(4, 3);
    const auto x = torch::randn({12, 4}, torch::kFloat64);
    const auto y = torch::randn({12, 3}, torch::kFloat64);
    Kfac optimizer(*layer, plain_kfac().damping(damping));
    const auto before = linear_layer(layer);
    const auto output = layer->forward(x);
    half_squared_error(output, y).backward();
    optimizer.step();

    const auto s = (output - y).detach();  // gradient of each sample's own loss
    const auto p = s.t().matmul(s) / 12.0;
    const auto a = with_ones(x).t().matmul(with_ones(x)) / 12.0;
    const auto v = kronecker_solve(p, a, damping, linear_gradient(layer));
    EXPECT_TRUE(all_close(linear_layer(layer), before - v, 1e-9)) << damping;
  }
}

TEST_F(FactoredTest, KfacOfTwoLayersIsTheExplicitSolution) {
  auto first = double_linear(5, 4);
  auto second = double_linear(4, 3);
  torch::nn::Sequential model(first, torch::nn::Tanh(), second);
  const auto x = torch::randn({10, 5}, torch::kFloat64);
  const auto labels = torch::randint(0, 3, {10});
  const double damping = 0.05;
  Kfac optimizer(*model, plain_kfac().damping(damping));
  const auto before_first = linear_layer(first);
  const auto before_second = linear_layer(second);

  auto z1 = first->forward(x);
  z1.retain_grad();
  const auto hidden = torch::tanh(z1);
  auto z2 = second->forward(hidden);
  z2.retain_grad();
  cross_entropy(z2, labels).backward();
  optimizer.step();

  const auto expected = [&](torch::nn::Linear& layer, const torch::Tensor& input,
                            const torch::Tensor& output, const torch::Tensor& before) {
    const auto s = output.grad() * 10.0;
    const auto rows = with_ones(input.detach());
    return before - kronecker_solve(s.t().matmul(s) / 10.0, rows.t().matmul(rows) / 10.0, damping,
                                    linear_gradient(layer));
  };
  EXPECT_TRUE(all_close(linear_layer(first), expected(first, x, z1, before_first), 1e-9));
  EXPECT_TRUE(all_close(linear_layer(second), expected(second, hidden, z2, before_second), 1e-9));
}

TEST_F(FactoredTest, KfacIsTheExactFisherOnACartesianProduct) {
  // Every input with every output gradient: the two are independent, and the loss Σ s·Wx makes the
  // output gradient of a sample whatever the data set says.
  auto layer = double_linear(3, 2);
  const auto inputs = torch::randn({5, 3}, torch::kFloat64);
  const auto gradients = torch::randn({4, 2}, torch::kFloat64);
  const auto x = inputs.repeat_interleave(4, 0);
  const auto s = gradients.repeat({5, 1});
  const double damping = 0.1;
  Kfac optimizer(*layer, plain_kfac().damping(damping));
  const auto before = linear_layer(layer);
  (layer->forward(x) * s).sum(1).mean().backward();
  optimizer.step();

  auto fisher = torch::zeros({8, 8}, torch::kFloat64);
  for (int64_t i = 0; i < x.size(0); ++i) {
    const auto g = torch::outer(s[i], with_ones(x[i].view({1, -1}))[0]).flatten();
    fisher += torch::outer(g, g) / static_cast<double>(x.size(0));
  }
  const auto g = linear_gradient(layer);
  const auto v = at::linalg_solve(fisher + damping * identity(8), g.reshape({-1, 1})).view_as(g);
  EXPECT_TRUE(all_close(linear_layer(layer), before - v, 1e-9));
}

TEST_F(FactoredTest, KfacCholeskyDampsEachFactor) {
  auto layer = double_linear(4, 3);
  const auto x = torch::randn({12, 4}, torch::kFloat64);
  const auto y = torch::randn({12, 3}, torch::kFloat64);
  const double damping = 0.2;
  Kfac optimizer(*layer, plain_kfac().damping(damping).inverse(InverseMethod::Cholesky));
  const auto before = linear_layer(layer);
  const auto output = layer->forward(x);
  half_squared_error(output, y).backward();
  optimizer.step();

  const auto s = (output - y).detach();
  const auto p = s.t().matmul(s) / 12.0;
  const auto a = with_ones(x).t().matmul(with_ones(x)) / 12.0;
  const auto balance = ((a.trace() / 5.0) / (p.trace() / 3.0)).sqrt().item<double>();
  const auto left = at::linalg_inv(p + std::sqrt(damping) / balance * identity(3));
  const auto right = at::linalg_inv(a + std::sqrt(damping) * balance * identity(5));
  const auto v = left.matmul(linear_gradient(layer)).matmul(right);
  EXPECT_TRUE(all_close(linear_layer(layer), before - v, 1e-9));
}

TEST_F(FactoredTest, LargeDampingTendsToSgd) {
  const double damping = 1e8;
  for (const auto inverse : {InverseMethod::Eigen, InverseMethod::Cholesky}) {
    auto by_kfac = make_mlp();
    auto by_foof = make_mlp();
    auto by_sgd = make_mlp();
    copy_values(by_sgd, by_kfac);
    copy_values(by_sgd, by_foof);
    const auto lr = 0.1 * damping;
    Kfac kfac(*by_kfac, plain_kfac().lr(lr).damping(damping).momentum(0.9).inverse(inverse));
    Foof foof(*by_foof, plain_foof().lr(lr).damping(damping).momentum(0.9).inverse(inverse));
    torch::optim::SGD sgd(by_sgd->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int i = 0; i < 5; ++i) {
      const auto batch = row_batch(16);
      train_step(by_kfac, kfac, batch);
      train_step(by_foof, foof, batch);
      train_step(by_sgd, sgd, batch);
    }
    // Factored damping leaves a relative difference of the order of 1/√δ, not of 1/δ.
    expect_close(snapshot(*by_kfac), snapshot(*by_sgd),
                 inverse == InverseMethod::Eigen ? 1e-6 : 1e-2);
    expect_close(snapshot(*by_foof), snapshot(*by_sgd), 1e-6);
  }
}

TEST_F(FactoredTest, KlClipShortensTheStep) {
  const double lr = 0.5, kappa = 1e-4;
  auto clipped = make_mlp();
  auto free = make_mlp();
  copy_values(clipped, free);
  const auto start = snapshot(*clipped);
  Kfac with_clip(*clipped, plain_kfac().lr(lr).kl_clip(kappa));
  Kfac without(*free, plain_kfac().lr(lr));
  const auto batch = row_batch(16);
  train_step(clipped, with_clip, batch);
  train_step(free, without, batch);

  double change = 0.0;  // Σ η² v·g, from the free step: θ' = θ − ηv
  const auto parameters = free->parameters();
  for (std::size_t i = 0; i < start.size(); ++i) {
    const auto v = (start[i] - parameters[i].detach()) / lr;
    change += lr * lr * (v * parameters[i].grad()).sum().item<double>();
  }
  const auto nu = std::min(1.0, std::sqrt(kappa / change));
  ASSERT_LT(nu, 1.0);
  for (std::size_t i = 0; i < start.size(); ++i) {
    const auto expected = start[i] + nu * (parameters[i].detach() - start[i]);
    EXPECT_TRUE(all_close(clipped->parameters()[i].detach(), expected, 1e-9));
  }
}

TEST_F(FactoredTest, KfacAuthorsScaleUsesMeanGradients) {
  auto layer = double_linear(4, 3);
  const auto x = torch::randn({6, 2, 4}, torch::kFloat64);  // two positions
  const double damping = 1e-3;
  Kfac optimizer(*layer, plain_kfac().damping(damping).scale(KfacScale::Authors));
  const auto before = linear_layer(layer);
  auto output = layer->forward(x);
  output.retain_grad();
  output.square().mean().backward();
  optimizer.step();

  const auto s = output.grad().reshape({-1, 3});
  const auto rows = with_ones(x.reshape({-1, 4}));
  const auto v = kronecker_solve(s.t().matmul(s) / 12.0, rows.t().matmul(rows) / 12.0, damping,
                                 linear_gradient(layer));
  EXPECT_TRUE(all_close(linear_layer(layer), before - v, 1e-9));
}

TEST_F(FactoredTest, KfacOfSequencesSumsInputsAndAveragesGradients) {
  auto layer = double_linear(4, 3);
  const auto x = torch::randn({6, 2, 4}, torch::kFloat64);  // two positions
  const double damping = 1e-2;
  Kfac optimizer(*layer, plain_kfac().damping(damping));
  const auto before = linear_layer(layer);
  auto output = layer->forward(x);
  output.retain_grad();
  output.square().sum({1, 2}).mean().backward();
  optimizer.step();

  const auto s = output.grad().reshape({-1, 3}) * 6.0;
  const auto rows = with_ones(x.reshape({-1, 4}));
  const auto v = kronecker_solve(s.t().matmul(s) / 12.0, rows.t().matmul(rows) / 6.0, damping,
                                 linear_gradient(layer));
  EXPECT_TRUE(all_close(linear_layer(layer), before - v, 1e-9));
}

}  // namespace
