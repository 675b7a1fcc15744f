// FOOF and KFAC on problems whose answer is known, in float64.

#include <sstream>

#include <adaact/adaact.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/libtorch.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using adaact::Foof;
using adaact::FoofOptions;
using adaact::InverseMethod;
using adaact::Kfac;
using adaact::KfacOptions;
using adaact::KfacScale;
using adaact::testing::all_close;
using adaact::testing::contains;
using adaact::testing::copy_values;
using adaact::testing::cross_entropy;
using adaact::testing::expect_bit_identical;
using adaact::testing::expect_close;
using adaact::testing::make_mlp;
using adaact::testing::row_batch;
using adaact::testing::snapshot;
using adaact::testing::train_step;
using adaact::testing::WarningCapture;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// One step is exactly θ − v.
FoofOptions plain_foof() {
  return FoofOptions(1.0).momentum(0.0).weight_decay(0.0).covariance_period(1).inverse_period(1);
}
KfacOptions plain_kfac() {
  return KfacOptions(1.0)
      .momentum(0.0)
      .weight_decay(0.0)
      .kl_clip(kInfinity)
      .covariance_period(1)
      .inverse_period(1);
}

torch::Tensor with_ones(const torch::Tensor& rows) {
  return torch::cat({rows, torch::ones({rows.size(0), 1}, rows.options())}, 1);
}

torch::Tensor identity(int64_t n) { return torch::eye(n, torch::kFloat64); }

/// (P ⊗ A + δI)⁻¹ applied to the gradient, by building the whole matrix.
torch::Tensor kronecker_solve(const torch::Tensor& p, const torch::Tensor& a, double damping,
                              const torch::Tensor& gradient) {
  const auto fisher = torch::kron(p, a) + damping * identity(p.size(0) * a.size(0));
  return at::linalg_solve(fisher, gradient.reshape({-1, 1})).view_as(gradient);
}

/// [W b], with gradients or values.
torch::Tensor joint(const torch::Tensor& weight, const torch::Tensor& bias) {
  const auto rows = weight.detach().reshape({weight.size(0), -1});
  return bias.defined() ? torch::cat({rows, bias.detach().view({-1, 1})}, 1) : rows.clone();
}

torch::Tensor linear_layer(torch::nn::Linear& layer) { return joint(layer->weight, layer->bias); }
torch::Tensor linear_gradient(torch::nn::Linear& layer) {
  return joint(layer->weight.grad(), layer->bias.grad());
}

torch::Tensor half_squared_error(const torch::Tensor& output, const torch::Tensor& target) {
  return 0.5 * (output - target).square().sum(-1).mean();
}

torch::nn::Linear double_linear(int64_t in, int64_t out) {
  torch::nn::Linear layer(in, out);
  layer->to(torch::kFloat64);
  return layer;
}

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

// Convolutions, against a patch matrix built here.

struct ConvCase {
  const char* name;
  torch::nn::Conv2dOptions options;
  std::vector<int64_t> padding{0, 0};
};

std::ostream& operator<<(std::ostream& out, const ConvCase& c) { return out << c.name; }

class ConvolutionTest : public ::testing::TestWithParam<ConvCase> {
 protected:
  void SetUp() override {
    torch::manual_seed(6);
    auto options = GetParam().options;
    conv_ = torch::nn::Conv2d(options.padding(GetParam().padding));
    conv_->to(torch::kFloat64);
    x_ = torch::randn({5, GetParam().options.in_channels(), 7, 6}, torch::kFloat64);
  }

  /// Runs forward and backward and keeps what went in and came back.
  void run(torch::optim::Optimizer& optimizer) {
    before_ = joint(conv_->weight, conv_->bias);
    auto output = conv_->forward(x_);
    output.retain_grad();
    (torch::tanh(output).sum({1, 2, 3})).mean().backward();
    optimizer.step();
    output_gradient_ = output.grad();
    gradient_ =
        joint(conv_->weight.grad(), conv_->bias.defined() ? conv_->bias.grad() : torch::Tensor());
  }

  /// (N·P, n) rows of the patch matrix of one group, with a column of ones where there is a bias.
  torch::Tensor patches(int64_t group) const {
    const auto& o = GetParam().options;
    const auto channels = o.in_channels() / o.groups();
    const auto slice = x_.narrow(1, group * channels, channels);
    namespace F = torch::nn::functional;
    const auto unfolded = F::unfold(slice, F::UnfoldFuncOptions(o.kernel_size())
                                               .stride(o.stride())
                                               .padding(GetParam().padding)
                                               .dilation(o.dilation()));
    const auto rows = unfolded.transpose(1, 2).reshape({-1, unfolded.size(1)});
    return o.bias() ? with_ones(rows) : rows;
  }
  /// (N·P, r) output gradients of one group.
  torch::Tensor output_gradients(int64_t group) const {
    const auto& o = GetParam().options;
    const auto rows = o.out_channels() / o.groups();
    return output_gradient_.narrow(1, group * rows, rows).permute({0, 2, 3, 1}).reshape({-1, rows});
  }
  torch::Tensor rows_of_group(const torch::Tensor& matrix, int64_t group) const {
    const auto rows = matrix.size(0) / GetParam().options.groups();
    return matrix.narrow(0, group * rows, rows);
  }

  torch::nn::Conv2d conv_{nullptr};
  torch::Tensor x_, before_, gradient_, output_gradient_;
};

TEST_P(ConvolutionTest, FoofMatchesThePatchMatrix) {
  const double damping = 0.1;
  Foof optimizer(*conv_, plain_foof().damping(damping));
  run(optimizer);
  const auto after = joint(conv_->weight, conv_->bias);
  for (int64_t group = 0; group < GetParam().options.groups(); ++group) {
    const auto rows = patches(group);
    const auto a = rows.t().matmul(rows) / static_cast<double>(rows.size(0));
    const auto v =
        rows_of_group(gradient_, group).matmul(at::linalg_inv(a + damping * identity(a.size(0))));
    EXPECT_TRUE(all_close(rows_of_group(after, group), rows_of_group(before_, group) - v, 1e-9));
  }
}

TEST_P(ConvolutionTest, KfacMatchesThePatchMatrix) {
  const double damping = 0.1;
  Kfac optimizer(*conv_, plain_kfac().damping(damping));
  run(optimizer);
  const auto after = joint(conv_->weight, conv_->bias);
  const auto samples = static_cast<double>(x_.size(0));
  for (int64_t group = 0; group < GetParam().options.groups(); ++group) {
    const auto rows = patches(group);
    const auto a = rows.t().matmul(rows) / samples;
    const auto s = output_gradients(group) * samples;
    const auto p = s.t().matmul(s) / static_cast<double>(s.size(0));
    const auto v = kronecker_solve(p, a, damping, rows_of_group(gradient_, group).contiguous());
    EXPECT_TRUE(all_close(rows_of_group(after, group), rows_of_group(before_, group) - v, 1e-9));
  }
}

using ConvOptions = torch::nn::Conv2dOptions;
INSTANTIATE_TEST_SUITE_P(
    Geometries, ConvolutionTest,
    ::testing::Values(ConvCase{"plain", ConvOptions(2, 3, 3)},
                      ConvCase{"no_bias", ConvOptions(2, 3, 3).bias(false)},
                      ConvCase{"padded", ConvOptions(2, 3, 3), {1, 1}},
                      ConvCase{"strided", ConvOptions(2, 3, 3).stride(2), {1, 1}},
                      ConvCase{"dilated", ConvOptions(2, 3, 3).dilation(2), {2, 2}},
                      ConvCase{"oblong", ConvOptions(2, 3, {1, 3}).stride({2, 1}), {0, 1}},
                      ConvCase{"grouped", ConvOptions(4, 6, 3).groups(2), {1, 1}},
                      ConvCase{"depthwise", ConvOptions(3, 3, 3).groups(3).bias(false)},
                      ConvCase{"pointwise", ConvOptions(3, 4, 1)}),
    [](const auto& info) { return info.param.name; });

// What breaks such optimizers.

TEST_F(FactoredTest, AnInPlaceActivationChangesNothing) {
  const auto train = [](bool in_place) {
    torch::manual_seed(7);
    torch::nn::Sequential model(torch::nn::Linear(6, 8),
                                torch::nn::ReLU(torch::nn::ReLUOptions(in_place)),
                                torch::nn::Linear(8, 3));
    model->to(torch::kFloat64);
    Kfac optimizer(*model, plain_kfac().lr(0.1).damping(0.1));
    for (int i = 0; i < 3; ++i) train_step(model, optimizer, row_batch(10));
    return snapshot(*model);
  };
  expect_close(train(true), train(false), 1e-12);
}

TEST_F(FactoredTest, FactorsAreMeasuredAndInvertedByTheirPeriods) {
  auto model = make_mlp();
  Kfac optimizer(*model, KfacOptions(0.01).covariance_period(3).inverse_period(5));
  const auto weight = model->parameters()[0];
  const auto factors = [&]() -> const adaact::KroneckerFactors& {
    for (const auto& [key, state] : optimizer.state()) {
      const auto& typed = static_cast<const adaact::KfacParamState&>(*state);
      if (!typed.factors().empty() && typed.factors()[0].a.size(-1) == 7) return typed.factors()[0];
    }
    throw std::logic_error("no factors");
  };
  torch::Tensor a;
  torch::Tensor vectors;
  for (int t = 0; t < 11; ++t) {
    train_step(model, optimizer, row_batch(10));
    EXPECT_EQ(factors().updates, t / 3 + 1) << t;
    if (t > 0) {
      EXPECT_EQ(torch::equal(factors().a, a), t % 3 != 0) << t;
      EXPECT_EQ(torch::equal(factors().a_vectors, vectors), t % 5 != 0) << t;
    }
    a = factors().a.clone();
    vectors = factors().a_vectors.clone();
  }
}

TEST_F(FactoredTest, ALayerFirstUsedLateGetsFactorsAtOnce) {
  struct NetImpl : torch::nn::Module {
    NetImpl() {
      first = register_module("first", torch::nn::Linear(6, 3));
      late = register_module("late", torch::nn::Linear(3, 3));
    }
    torch::Tensor forward(const torch::Tensor& x) {
      const auto y = first->forward(x);
      return use_late ? late->forward(torch::tanh(y)) : y;
    }
    torch::nn::Linear first{nullptr}, late{nullptr};
    bool use_late = false;
  };
  const auto model = std::make_shared<NetImpl>();
  const WarningCapture warnings;
  Kfac optimizer(*model, KfacOptions(0.01).covariance_period(10).inverse_period(10));
  const auto train = [&] {
    optimizer.zero_grad();
    const auto batch = row_batch(8, torch::kFloat32);
    cross_entropy(model->forward(batch.x), batch.y).backward();
    optimizer.step();
  };
  for (int i = 0; i < 3; ++i) train();
  EXPECT_TRUE(contains(warnings.messages.at(0), "late.weight"));
  model->use_late = true;
  train();
  for (const auto& parameter : optimizer.coverage()) EXPECT_TRUE(parameter.observed);
}

TEST_F(FactoredTest, FactorsTooLargeFallBackToMomentumSgd) {
  auto model = make_mlp();  // factors of 7 and 8, 9 and 3 rows
  auto by_sgd = make_mlp();
  copy_values(model, by_sgd);
  const WarningCapture warnings;
  Kfac optimizer(*model, KfacOptions(0.1).max_factor_size(2));
  torch::optim::SGD sgd(by_sgd->parameters(),
                        torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(5e-4));
  for (int i = 0; i < 4; ++i) {
    const auto batch = row_batch(10);
    train_step(model, optimizer, batch);
    train_step(by_sgd, sgd, batch);
  }
  expect_close(snapshot(*model), snapshot(*by_sgd), 1e-12);
  ASSERT_EQ(warnings.messages.size(), 2U);  // once for each layer
  EXPECT_TRUE(contains(warnings.messages[0], "'0.weight' would have 8 rows"));
  EXPECT_TRUE(contains(warnings.messages[1], "'2.weight' would have 9 rows"));
  EXPECT_TRUE(contains(warnings.messages[1], "max_factor_size 2"));
  const auto coverage = optimizer.coverage();
  EXPECT_FALSE(coverage[0].observed);
  EXPECT_TRUE(contains(coverage[0].reason, "max_factor_size 2"));
}

TEST_F(FactoredTest, OnlyTheLayerThatIsTooLargeFallsBack) {
  auto model = make_mlp();
  const WarningCapture warnings;
  Foof optimizer(*model, FoofOptions(0.1).max_factor_size(8));  // A of 7 and of 9 rows
  train_step(model, optimizer, row_batch(10));
  ASSERT_EQ(warnings.messages.size(), 1U);
  EXPECT_TRUE(contains(warnings.messages[0], "'2.weight'"));
  EXPECT_TRUE(optimizer.coverage()[0].observed);
  EXPECT_FALSE(optimizer.coverage()[2].observed);
}

TEST_F(FactoredTest, SelfAndCrossAttentionShareAPackedProjection) {
  torch::nn::MultiheadAttention attention(torch::nn::MultiheadAttentionOptions(4, 2));
  attention->to(torch::kFloat64);
  Kfac optimizer(*attention, KfacOptions(0.01).covariance_period(1).inverse_period(1));
  const auto train = [&](bool cross) {
    const auto x = torch::randn({3, 5, 4}, torch::kFloat64);
    const auto other = cross ? torch::randn({3, 5, 4}, torch::kFloat64) : x;
    optimizer.zero_grad();
    std::get<0>(attention->forward(x, other, other)).square().mean().backward();
    optimizer.step();
  };
  for (const bool cross : {false, false, true, true, false}) train(cross);
  const auto runs = optimizer.export_state().entries.at("in_proj_weight").at("runs");
  EXPECT_GT(runs.size(0), 1);  // the whole projection was cut where cross-attention divides it
  for (const auto& parameter : attention->parameters()) {
    EXPECT_TRUE(torch::isfinite(parameter).all().item<bool>());
  }
  for (const auto& parameter : optimizer.coverage()) {
    EXPECT_TRUE(parameter.observed) << parameter.name << ": " << parameter.reason;
  }
  std::stringstream file;
  optimizer.named_state().save(file);
  optimizer.named_state().load(file);
}

TEST_F(FactoredTest, ADeadInputDoesNotBlowUp) {
  auto layer = double_linear(4, 3);
  layer->to(torch::kFloat32);
  auto x = torch::randn({16, 4});
  x.select(1, 2).zero_();
  x.select(1, 3).copy_(x.select(1, 0));  // and a duplicate
  Kfac kfac(*layer, plain_kfac().lr(0.1).damping(1e-6));
  half_squared_error(layer->forward(x), torch::randn({16, 3})).backward();
  kfac.step();
  EXPECT_TRUE(torch::isfinite(layer->weight).all().item<bool>());
  EXPECT_LT(layer->weight.abs().max().item<double>(), 100.0);
}

TEST_F(FactoredTest, ADiscardedForwardPassAndItsLateBackwardLeaveNoTrace) {
  auto model = make_mlp();
  auto other = make_mlp();
  copy_values(model, other);
  Kfac optimizer(*model, plain_kfac().lr(0.1).damping(0.1));
  Kfac reference(*other, plain_kfac().lr(0.1).damping(0.1));
  const auto batch = row_batch(10);
  const auto late_loss = cross_entropy(model->forward(batch.x * 3.0), batch.y);
  optimizer.discard_observations();
  late_loss.backward();
  train_step(model, optimizer, batch);
  train_step(other, reference, batch);
  expect_bit_identical(snapshot(*model), snapshot(*other));
}

TEST_F(FactoredTest, ALayerWithoutBackwardPassKeepsItsFactors) {
  struct NetImpl : torch::nn::Module {
    NetImpl() {
      used = register_module("used", torch::nn::Linear(6, 3));
      looked_at = register_module("looked_at", torch::nn::Linear(6, 3));
    }
    torch::nn::Linear used{nullptr}, looked_at{nullptr};
  };
  const auto model = std::make_shared<NetImpl>();
  const WarningCapture warnings;
  Kfac optimizer(*model, plain_kfac().lr(0.1));
  const auto batch = row_batch(8, torch::kFloat32);
  model->looked_at->forward(batch.x);  // gradients are recorded, but nobody asks for them
  cross_entropy(model->used->forward(batch.x), batch.y).backward();
  optimizer.step();
  for (const auto& parameter : optimizer.coverage()) {
    EXPECT_EQ(parameter.observed, parameter.name.rfind("used", 0) == 0) << parameter.name;
  }
}

TEST_F(FactoredTest, ABackwardPassInAPauseIsNotObserved) {
  auto model = make_mlp();
  auto other = make_mlp();
  copy_values(model, other);
  Kfac optimizer(*model, plain_kfac().lr(0.1).damping(0.1));
  Kfac reference(*other, plain_kfac().lr(0.1).damping(0.1));
  const auto batch = row_batch(10);
  optimizer.zero_grad();
  const auto loss = cross_entropy(model->forward(batch.x), batch.y);
  {
    const auto pause = optimizer.pause_observation();
    torch::autograd::grad({loss}, {model->parameters()[0]}, {}, /*retain_graph=*/true);
  }
  loss.backward();
  optimizer.step();
  train_step(other, reference, batch);
  expect_bit_identical(snapshot(*model), snapshot(*other));
}

/// Rows [0, 2) and [2, 4) of one weight as layers of their own, each with its part of the bias.
struct SlicedNetImpl : torch::nn::Module {
  SlicedNetImpl() {
    weight = register_parameter("weight", torch::randn({4, 3}, torch::kFloat64));
    bias = register_parameter("bias", torch::zeros({4}, torch::kFloat64));
  }
  torch::Tensor forward(const torch::Tensor& x, bool upper) {
    const auto begin = upper ? 2 : 0;
    return torch::linear(x, weight.narrow(0, begin, 2)) + bias.narrow(0, begin, 2);
  }
  torch::Tensor weight, bias;
};
TORCH_MODULE(SlicedNet);

void train_slices(SlicedNet& model, torch::optim::Optimizer& optimizer,
                  const std::vector<bool>& uppers) {
  optimizer.zero_grad();
  for (const bool upper : uppers) {
    model->forward(torch::randn({6, 3}, torch::kFloat64), upper).square().sum(1).mean().backward();
  }
  optimizer.step();
}

TEST_F(FactoredTest, SlicesUsedInAnyOrderAreSavedInOrder) {
  SlicedNet model;
  Kfac optimizer(*model, plain_kfac().lr(0.01).damping(0.1));
  train_slices(model, optimizer, {true});
  train_slices(model, optimizer, {false});
  const auto runs = optimizer.export_state().entries.at("weight").at("runs");
  EXPECT_TRUE(torch::equal(runs, torch::tensor({{0, 2, 1}, {2, 4, 1}}, torch::kInt64))) << runs;
  std::stringstream file;
  optimizer.named_state().save(file);
  optimizer.named_state().load(file);
}

TEST_F(FactoredTest, ABiasMayBeFrozenWhileSlicesAreUsedInTurn) {
  SlicedNet model;
  Kfac optimizer(*model, plain_kfac().lr(0.01).damping(0.1));
  train_slices(model, optimizer, {false, true});
  model->bias.set_requires_grad(false);
  train_slices(model, optimizer, {false});  // now without a column for the bias
  train_slices(model, optimizer, {true, false});
  model->bias.set_requires_grad(true);
  train_slices(model, optimizer, {true});
  EXPECT_EQ(optimizer.steps(), 4);
  EXPECT_TRUE(torch::isfinite(model->weight).all().item<bool>());
}

TEST_F(FactoredTest, AWeightWithoutRowsDoesNotMatter) {
  const adaact::NamedTensors tensors{
      {"empty", torch::zeros({0, 3}, torch::kFloat64).requires_grad_()},
      {"full", torch::randn({2, 3}, torch::kFloat64).requires_grad_()}};
  const WarningCapture warnings;
  Kfac optimizer(tensors);
  const auto x = torch::randn({5, 3}, torch::kFloat64);
  const auto loss =
      torch::linear(x, tensors[0].second).sum() + torch::linear(x, tensors[1].second).sum();
  loss.backward();
  optimizer.step();
  EXPECT_TRUE(optimizer.coverage()[1].observed);
}

/// A backward pass that leaves the gradient undefined, which stands for zero.
struct NoGradient : torch::autograd::Function<NoGradient> {
  static torch::Tensor forward(torch::autograd::AutogradContext* /*context*/, torch::Tensor x) {
    return x.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* /*context*/,
                                               torch::autograd::tensor_list /*gradients*/) {
    return {torch::Tensor()};
  }
};

TEST_F(FactoredTest, AnUndefinedGradientIsNoFailure) {
  auto model = make_mlp();
  Kfac optimizer(*model);
  optimizer.zero_grad();
  NoGradient::apply(model->forward(row_batch(4).x)).sum().backward();
  const WarningCapture warnings;
  optimizer.step();
}

TEST_F(FactoredTest, ASingularFactorNamesItsLayer) {
  torch::nn::Sequential model(torch::nn::Linear(50, 2));
  Foof optimizer(*model, plain_foof().damping(1e-12));
  auto x = torch::randn({3, 50}) * 1e4;
  model->forward(x).square().mean().backward();
  const auto before = snapshot(*model);
  const auto error = adaact::testing::error_of([&] { optimizer.step(); });
  EXPECT_TRUE(
      contains(error, "Foof: the factor of '0.weight' is not positive definite with damping"));
  EXPECT_TRUE(contains(error, "inverse \"eigen\""));
  expect_bit_identical(snapshot(*model), before);
  EXPECT_EQ(optimizer.steps(), 0);
}

TEST_F(FactoredTest, CoverageSaysWhyABiasIsNotScaled) {
  auto model = make_mlp();
  const WarningCapture warnings;
  Kfac optimizer(*model, KfacOptions(0.1).max_factor_size(8));  // 7 and 8 rows, 9 and 3 rows
  model->parameters()[0].set_requires_grad(false);
  train_step(model, optimizer, row_batch(10));
  const auto coverage = optimizer.coverage();
  EXPECT_TRUE(contains(coverage[1].reason, "whose weight is frozen"));
  EXPECT_TRUE(contains(coverage[3].reason, "larger than max_factor_size"));
}

TEST_F(FactoredTest, KfacNeedsTheOutputOfAnExplicitObservation) {
  auto layer = double_linear(4, 3);
  Kfac kfac(*layer);
  EXPECT_TRUE(contains(adaact::testing::error_of([&] {
                         kfac.observe(layer->weight, torch::randn({2, 4}, torch::kFloat64));
                       }),
                       "Kfac: observe() was given no output"));
}

TEST_F(FactoredTest, HalfPrecisionWeightsDoNotOverflowBeforeTheLearningRate) {
  auto layer = torch::nn::Linear(4, 3);
  layer->to(torch::kHalf);
  Foof optimizer(*layer, plain_foof().lr(1e-4).momentum(0.0).max_factor_size(0));
  layer->weight.mutable_grad() = torch::full({3, 4}, 60000.0, torch::kHalf);
  layer->bias.mutable_grad() = torch::zeros({3}, torch::kHalf);
  const auto before = layer->weight.detach().to(torch::kFloat32);
  optimizer.param_groups()[0].options().set_lr(1e-4);
  static_cast<FoofOptions&>(optimizer.param_groups()[0].options()).weight_decay(1e6);
  optimizer.step();
  EXPECT_TRUE(torch::isfinite(layer->weight).all().item<bool>());
}

TEST_F(FactoredTest, AnExplicitObservationOfInputAndOutputEqualsTheOperators) {
  auto seen = double_linear(4, 3);
  auto reported = double_linear(4, 3);
  copy_values(seen, reported);
  Kfac by_operator(*seen, plain_kfac().damping(0.1));
  Kfac by_hand(*reported, plain_kfac().damping(0.1));
  const auto x = torch::randn({8, 4}, torch::kFloat64);
  const auto y = torch::randn({8, 3}, torch::kFloat64);
  half_squared_error(seen->forward(x), y).backward();
  by_operator.step();

  // einsum is no layer's operator.
  const auto product = torch::einsum("bi,oi->bo", {x, reported->weight});
  const auto output = product + reported->bias;
  by_hand.observe(reported->weight, x, adaact::Geometry::linear(), output);
  half_squared_error(output, y).backward();
  by_hand.step();
  expect_close(snapshot(*reported), snapshot(*seen), 1e-12);
}

TEST_F(FactoredTest, ANonsensicalStateIsRefused) {
  auto model = make_mlp();
  Kfac optimizer(*model);
  train_step(model, optimizer, row_batch(8));
  const auto error = [&](const char* entry, const torch::Tensor& value) {
    auto state = optimizer.export_state();
    state.entries.at("0.weight")[entry] = value;
    return adaact::testing::error_of([&] { optimizer.import_state(state, "test"); });
  };
  EXPECT_TRUE(contains(error("a.0", torch::zeros({1, 3, 3})), "'a.0' of '0.weight'"));
  EXPECT_TRUE(contains(error("p.0", torch::zeros({1, 3, 3})), "'p.0' of '0.weight'"));
  EXPECT_TRUE(contains(error("runs", torch::tensor({{0, 99, 1}})), "'runs'"));
  EXPECT_TRUE(contains(error("momentum_buffer", torch::zeros({2})), "'momentum_buffer'"));
  EXPECT_TRUE(contains(error("surprise", torch::zeros({2})), "unknown entry 'surprise'"));
}

}  // namespace
