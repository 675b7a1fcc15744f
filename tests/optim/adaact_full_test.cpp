// The variant with the full covariance, which the paper compares with the diagonal.

#include <cmath>
#include <memory>
#include <sstream>

#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::AdaAct;
using adaact::AdaActOptions;

AdaActOptions full_options() {
  return AdaActOptions(0.1).covariance(adaact::Covariance::Full).damping(0.01).refresh_period(1);
}

/// The library uses eigenvectors, so the test uses the singular value decomposition.
torch::Tensor inverse_root(const torch::Tensor& a, double damping, double eps) {
  const auto n = a.size(0);
  const auto [u, s, vh] = torch::linalg_svd(a + damping * torch::eye(n, a.options()));
  const auto root = u.matmul(torch::diag(s.sqrt())).matmul(vh);
  return torch::linalg_inv(root + eps * torch::eye(n, a.options()));
}

TEST(AdaActFull, LinearWithBiasFollowsTheEquations) {
  torch::manual_seed(21);
  torch::nn::Linear model(4, 3);
  model->to(torch::kFloat64);
  AdaAct optimizer(*model, full_options());
  auto theta = torch::cat({model->weight, model->bias.unsqueeze(1)}, 1).detach().clone();
  auto m = torch::zeros_like(theta);
  auto a_ema = torch::zeros({5, 5}, torch::kFloat64);
  for (int t = 1; t <= 8; ++t) {
    const auto x = 2 * torch::randn({6, 4}, torch::kFloat64);
    optimizer.zero_grad();
    model->forward(x).sin().sum().backward();
    const auto g = torch::cat({model->weight.grad(), model->bias.grad().unsqueeze(1)}, 1);
    optimizer.step();

    const auto a = torch::cat({x, torch::ones({6, 1}, torch::kFloat64)}, 1);
    a_ema = 0.999 * a_ema + 0.001 * a.t().matmul(a) / 6.0;
    m = 0.9 * m + 0.1 * g;
    const auto preconditioner = inverse_root(a_ema / (1 - std::pow(0.999, t)), 0.01, 1e-8);
    const auto g_hat = (m / (1 - std::pow(0.9, t))).matmul(preconditioner);
    theta = theta - 0.1 * (g_hat + 2e-3 * theta);
    ASSERT_TRUE(all_close(model->weight.detach(), theta.narrow(1, 0, 4), 1e-10)) << t;
    ASSERT_TRUE(all_close(model->bias.detach(), theta.select(1, 4), 1e-10)) << t;
  }
}

TEST(AdaActFull, UncorrelatedInputsGiveTheDiagonalMethod) {
  torch::manual_seed(22);
  torch::nn::Linear diagonal(torch::nn::LinearOptions(4, 3).bias(false));
  torch::nn::Linear full(torch::nn::LinearOptions(4, 3).bias(false));
  diagonal->to(torch::kFloat64);
  full->to(torch::kFloat64);
  copy_values(diagonal, full);
  AdaAct diagonal_optimizer(*diagonal);
  AdaAct full_optimizer(*full, full_options().damping(0.0));
  const auto x = torch::diag(torch::tensor({1.0, 2.0, 0.5, 3.0}, torch::kFloat64));
  for (int t = 0; t < 5; ++t) {
    for (auto [model, optimizer] :
         {std::pair{diagonal, &diagonal_optimizer}, std::pair{full, &full_optimizer}}) {
      optimizer->zero_grad();
      model->forward(x).sin().sum().backward();
      optimizer->step();
    }
  }
  expect_close(snapshot(*full), snapshot(*diagonal), 1e-10);
}

TEST(AdaActFull, DeadAndDuplicateInputsKeepTheUpdateSmall) {
  torch::manual_seed(23);
  torch::nn::Linear model(6, 3);
  AdaAct optimizer(*model, full_options().damping(0.0).weight_decay(0.0));
  for (int t = 0; t < 3; ++t) {
    auto x = torch::randn({32, 6});
    x.select(1, 1).zero_();                // dead
    x.select(1, 3).copy_(x.select(1, 2));  // duplicate
    const auto before = snapshot(*model);
    optimizer.zero_grad();
    model->forward(x).square().mean().backward();
    optimizer.step();
    EXPECT_LT((snapshot(*model)[0] - before[0]).abs().max().item<double>(), 0.2);
  }
}

TEST(AdaActFull, RefreshPeriodKeepsThePreconditionerBetweenRefreshes) {
  torch::manual_seed(24);
  auto run = [](int64_t period) {
    torch::manual_seed(25);
    auto model = make_mlp();
    AdaAct optimizer(*model, full_options().refresh_period(period));
    std::vector<std::vector<torch::Tensor>> trace;
    for (int t = 0; t < 5; ++t) {
      train_step(model, optimizer, row_batch(8));
      trace.push_back(snapshot(*model));
    }
    return trace;
  };
  const auto each = run(1);
  const auto third = run(3);
  EXPECT_TRUE(bit_identical(third[0][0], each[0][0]));
  EXPECT_FALSE(torch::equal(third[1][0], each[1][0]));
  const auto never = run(1000);
  EXPECT_TRUE(bit_identical(third[2][0], never[2][0]));  // steps 2 and 3 use the first
  EXPECT_FALSE(torch::equal(third[3][0], never[3][0]));  // step 4 refreshes
}

TEST(AdaActFull, MicroBatchesMatchTheFullBatch) {
  torch::manual_seed(26);
  SmallNet whole;
  SmallNet parts;
  whole->to(torch::kFloat64);
  parts->to(torch::kFloat64);
  whole->norm->eval();  // batch normalisation sees micro-batches differently
  parts->norm->eval();
  copy_values(whole, parts);
  AdaAct whole_optimizer(*whole, full_options());
  AdaAct parts_optimizer(*parts, full_options());
  for (int t = 0; t < 4; ++t) {
    const auto batch = image_batch(8);
    train_step(whole, whole_optimizer, batch);
    parts_optimizer.zero_grad();
    for (int64_t begin = 0; begin < 8; begin += 2) {
      (cross_entropy(parts->forward(batch.x.narrow(0, begin, 2)), batch.y.narrow(0, begin, 2)) /
       4.0)
          .backward();
    }
    parts_optimizer.step();
  }
  expect_close(snapshot(*parts), snapshot(*whole), 1e-9);
}

TEST(AdaActFull, BiasInAnotherGroupKeepsThatGroupsOptions) {
  torch::nn::Linear model(4, 3);
  model->to(torch::kFloat64);
  const auto options = full_options();
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<torch::Tensor>{model->bias},
                      std::make_unique<AdaActOptions>(full_options().lr(0.0)));
  groups.emplace_back(std::vector<torch::Tensor>{model->weight},
                      std::make_unique<AdaActOptions>(options));
  AdaAct optimizer(*model, groups, options);
  const auto before = snapshot(*model);
  model->forward(torch::randn({5, 4}, torch::kFloat64)).sum().backward();
  optimizer.step();
  EXPECT_TRUE(bit_identical(model->bias.detach(), before[1]));
  EXPECT_FALSE(torch::equal(model->weight, before[0]));
}

/// The equations of one layer whose bias may be left out of a step: then M̂ and Â are the weight's alone.
class FullEquations {
 public:
  explicit FullEquations(torch::nn::Linear& layer)
      : theta_(torch::cat({layer->weight, layer->bias.unsqueeze(1)}, 1).detach().clone()),
        m_(torch::zeros_like(theta_)),
        a_(torch::zeros({theta_.size(1), theta_.size(1)}, torch::kFloat64)) {}

  void step(const torch::Tensor& x, const torch::Tensor& weight_gradient,
            const torch::Tensor& bias_gradient = {}) {
    const auto ones = torch::cat({x, torch::ones({x.size(0), 1}, torch::kFloat64)}, 1);
    a_ = 0.999 * a_ + 0.001 * ones.t().matmul(ones) / static_cast<double>(x.size(0));
    ++steps_;
    const auto n = weight_gradient.size(1);
    const auto columns = bias_gradient.defined() ? n + 1 : n;
    m_.narrow(1, 0, n).mul_(0.9).add_(weight_gradient, 0.1);
    auto m_hat = m_.narrow(1, 0, n) / (1 - std::pow(0.9, steps_));
    if (bias_gradient.defined()) {
      m_.select(1, n).mul_(0.9).add_(bias_gradient, 0.1);
      const auto of_bias = m_.narrow(1, n, 1) / (1 - std::pow(0.9, ++steps_of_bias_));
      m_hat = torch::cat({m_hat, of_bias}, 1);
    }
    const auto a_hat =
        a_.narrow(0, 0, columns).narrow(1, 0, columns) / (1 - std::pow(0.999, steps_));
    const auto g_hat = m_hat.matmul(inverse_root(a_hat, 0.01, 1e-8));
    const auto moved = theta_.narrow(1, 0, columns);
    moved.copy_(moved - 0.1 * (g_hat + 2e-3 * moved));
  }

  torch::Tensor weight() const { return theta_.narrow(1, 0, theta_.size(1) - 1); }

  void expect_of(const torch::nn::Linear& layer, int t) const {
    ASSERT_TRUE(all_close(layer->weight.detach(), weight(), 1e-10)) << t;
    ASSERT_TRUE(all_close(layer->bias.detach(), theta_.select(1, theta_.size(1) - 1), 1e-10)) << t;
  }

 private:
  torch::Tensor theta_, m_, a_;
  int steps_ = 0;
  int steps_of_bias_ = 0;
};

TEST(AdaActFull, ABiasMayBeFrozenAndFreedBetweenSteps) {
  torch::manual_seed(27);
  torch::nn::Linear model(4, 3);
  model->to(torch::kFloat64);
  AdaAct optimizer(*model, full_options());
  FullEquations equations(model);
  for (int t = 1; t <= 9; ++t) {
    const bool frozen = t > 3 && t <= 6;
    model->bias.requires_grad_(!frozen);
    const auto x = 2 * torch::randn({6, 4}, torch::kFloat64);
    optimizer.zero_grad();
    model->forward(x).sin().sum().backward();
    const auto g = model->weight.grad().clone();
    const auto g_bias = frozen ? torch::Tensor() : model->bias.grad().clone();
    if (t == 6) model->bias.requires_grad_(true);  // freed only before the step, without gradient
    if (t == 6) model->bias.mutable_grad().reset();
    optimizer.step();
    equations.step(x, g, g_bias);
    equations.expect_of(model, t);
  }
}

TEST(AdaActFull, ABiasThatJoinsLaterBecomesAColumn) {
  torch::manual_seed(28);
  torch::nn::Linear model(4, 3);
  model->to(torch::kFloat64);
  const auto options = full_options();
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<torch::Tensor>{model->weight},
                      std::make_unique<AdaActOptions>(options));
  AdaAct optimizer(*model, groups, options);
  FullEquations equations(model);
  for (int t = 1; t <= 6; ++t) {
    const auto x = torch::randn({5, 4}, torch::kFloat64);
    optimizer.zero_grad();
    model->zero_grad();
    model->forward(x).sin().sum().backward();
    if (t == 4) optimizer.add_param_group(torch::optim::OptimizerParamGroup({model->bias}));
    const auto g = model->weight.grad().clone();
    const auto g_bias = t >= 4 ? model->bias.grad().clone() : torch::Tensor();
    optimizer.step();
    equations.step(x, g, g_bias);
    equations.expect_of(model, t);
  }
}

TEST(AdaActFull, ABiasThatTwoWeightsShareIsAColumnOfTheFirst) {
  torch::manual_seed(29);
  torch::nn::Linear first(4, 3), second(2, 3);
  first->to(torch::kFloat64);
  second->to(torch::kFloat64);
  second->bias = first->bias;
  AdaAct optimizer(adaact::NamedTensors{{"first.weight", first->weight},
                                        {"first.bias", first->bias},
                                        {"second.weight", second->weight},
                                        {"second.bias", second->bias}},
                   full_options());
  FullEquations of_first(first);
  FullEquations of_second(second);  // its bias stays as it was there
  for (int t = 1; t <= 6; ++t) {
    const auto x1 = torch::randn({5, 4}, torch::kFloat64);
    const auto x2 = torch::randn({5, 2}, torch::kFloat64) + 1.0;
    optimizer.zero_grad();
    (first->forward(x1).sin() + second->forward(x2).cos()).sum().backward();
    const auto g1 = first->weight.grad().clone();
    const auto g2 = second->weight.grad().clone();
    const auto g_bias = first->bias.grad().clone();
    optimizer.step();
    of_first.step(x1, g1, g_bias);
    of_second.step(x2, g2);
    of_first.expect_of(first, t);
    ASSERT_TRUE(all_close(second->weight.detach(), of_second.weight(), 1e-10)) << t;
  }
}

TEST(AdaActFull, SwitchingTheVariantMidwayStartsTheMomentsAnew) {
  auto model = make_mlp();
  AdaAct optimizer(*model);
  train_step(model, optimizer, row_batch(8));
  static_cast<AdaActOptions&>(optimizer.param_groups()[0].options())
      .covariance(adaact::Covariance::Full);
  train_step(model, optimizer, row_batch(8));  // indexes anew; observed as before
  train_step(model, optimizer, row_batch(8));
  EXPECT_EQ(optimizer.second_moment(model->parameters()[0]).dim(), 3);
}

TEST(AdaActFull, BiasFrozenBeforeLoadingDoesNotUseItsColumn) {
  torch::nn::Linear model(4, 3);
  AdaAct saved(*model, full_options());
  model->forward(torch::randn({5, 4})).sum().backward();
  saved.step();
  std::stringstream stream;
  saved.named_state().save(stream);
  model->bias.requires_grad_(false);
  AdaAct loaded(*model, full_options());
  loaded.named_state().load(stream);
  const auto bias = model->bias.clone();
  model->weight.mutable_grad() = torch::ones_like(model->weight);
  loaded.step();
  EXPECT_TRUE(bit_identical(model->bias, bias));
}

}  // namespace
