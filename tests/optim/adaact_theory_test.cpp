// What the paper proves, and what must hold by construction.

#include <cmath>
#include <random>

#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "optim/adaact/update.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::AdaAct;
using adaact::AdaActOptions;

torch::Tensor double_randn(at::IntArrayRef sizes) { return torch::randn(sizes, torch::kFloat64); }

/// f(W) = mean over a fixed data set of a smooth, nonconvex loss of W·a − y.
class NonconvexProblem {
 public:
  NonconvexProblem()
      : inputs_(double_randn({256, 6}).clamp(-2, 2)),
        targets_(double_randn({256, 4}).clamp(-2, 2)) {}

  torch::Tensor loss(torch::nn::Linear& model, const torch::Tensor& rows) {
    const auto error =
        model->forward(inputs_.index_select(0, rows)) - targets_.index_select(0, rows);
    return (1 + error.square()).log().mean();  // Cauchy's loss: not convex, bounded gradient
  }

  double squared_gradient_norm(torch::nn::Linear& model, AdaAct& optimizer) {
    const auto pause = optimizer.pause_observation();
    optimizer.zero_grad();
    loss(model, torch::arange(inputs_.size(0))).backward();
    double sum = 0.0;
    for (const auto& parameter : model->parameters()) {
      sum += parameter.grad().square().sum().item<double>();
    }
    return sum;
  }

  torch::Tensor random_rows() const { return torch::randint(0, inputs_.size(0), {8}); }

 private:
  torch::Tensor inputs_, targets_;
};

/// Corollary 4.2: with η_t = 1/√t, min_{t ≤ T} E‖∇f‖² ≤ (Q₁ + Q₂ log T)/√T. An upper bound, so the
/// check is one-sided: the fitted exponent of the minimum in T may not be slower than that of
/// log T/√T over the same range.
TEST(AdaActTheory, MinimumGradientNormDecaysAtLeastAsFastAsTheCorollaryAllows) {
  constexpr int kSeeds = 5;
  constexpr int kSteps = 2048;
  std::vector<int> horizons;
  for (int t = 32; t <= kSteps; t *= 2) horizons.push_back(t);
  std::vector<double> mean_norm(kSteps + 1, 0.0);  // E‖∇f(θ_t)‖² over seeds
  for (int seed = 0; seed < kSeeds; ++seed) {
    torch::manual_seed(100);  // the same problem and start; only the noise differs
    NonconvexProblem problem;
    torch::nn::Linear model(6, 4);
    model->to(torch::kFloat64);
    torch::manual_seed(200 + seed);
    // Assumption A4 by clipping, as the paper suggests.
    AdaAct optimizer(*model, AdaActOptions(1.0).weight_decay(0.0).clip_range({0.05, 20.0}));
    for (int t = 1; t <= kSteps; ++t) {
      mean_norm[t] += problem.squared_gradient_norm(model, optimizer) / kSeeds;
      optimizer.param_groups()[0].options().set_lr(1.0 / std::sqrt(t));
      optimizer.zero_grad();
      problem.loss(model, problem.random_rows()).backward();
      optimizer.step();
    }
  }
  double running = mean_norm[1];
  std::vector<double> minimum;
  int t = 1;
  for (const int horizon : horizons) {
    for (; t <= horizon; ++t) running = std::min(running, mean_norm[t]);
    minimum.push_back(running);
  }
  const auto slope = [&](auto&& value_at) {  // least squares in log-log
    double sx = 0, sy = 0, sxx = 0, sxy = 0;
    const auto n = static_cast<double>(horizons.size());
    for (std::size_t i = 0; i < horizons.size(); ++i) {
      const double x = std::log(horizons[i]);
      const double y = std::log(value_at(i));
      sx += x, sy += y, sxx += x * x, sxy += x * y;
    }
    return (n * sxy - sx * sy) / (n * sxx - sx * sx);
  };
  const auto measured = slope([&](std::size_t i) { return minimum[i]; });
  const auto bound = slope([&](std::size_t i) {
    return std::log(static_cast<double>(horizons[i])) / std::sqrt(static_cast<double>(horizons[i]));
  });
  RecordProperty("measured_exponent", std::to_string(measured));
  RecordProperty("bound_exponent", std::to_string(bound));
  EXPECT_LE(measured, bound) << "exponent " << measured << ", the corollary's " << bound;
  EXPECT_LT(minimum.back(), minimum.front() / 4);
}

TEST(AdaActTheory, ScalingALayersInputsScalesVByItsSquareAndTheStepByItsInverse) {
  constexpr double kScale = 8.0;
  const auto x = double_randn({16, 5});
  const auto run = [&](double scale) {
    torch::manual_seed(41);
    torch::nn::Linear model(torch::nn::LinearOptions(5, 3).bias(false));
    model->to(torch::kFloat64);
    const auto before = model->weight.detach().clone();
    AdaAct optimizer(*model, AdaActOptions(0.1).weight_decay(0.0));
    model->forward(scale * x);
    model->weight.mutable_grad() = torch::ones_like(model->weight);  // the same gradient
    optimizer.step();
    return std::pair{optimizer.second_moment(model->weight), model->weight.detach() - before};
  };
  const auto [v, step] = run(1.0);
  const auto [scaled_v, scaled_step] = run(kScale);
  EXPECT_TRUE(all_close(scaled_v, v * kScale * kScale, 1e-14));
  EXPECT_TRUE(all_close(scaled_step, step / kScale, 1e-7));  // up to ε
}

TEST(AdaActTheory, PermutingSamplesChangesNothing) {
  const auto order = torch::randperm(12);
  const auto batch = row_batch(12);
  const auto run = [&](const Batch& data) {
    torch::manual_seed(42);
    auto model = make_mlp();
    AdaAct optimizer(*model);
    for (int t = 0; t < 3; ++t) train_step(model, optimizer, data);
    return snapshot(*model);
  };
  expect_close(run({batch.x.index_select(0, order), batch.y.index_select(0, order)}), run(batch),
               1e-12);
}

TEST(AdaActTheory, PermutingInputFeaturesPermutesVAndTheUpdate) {
  const auto order = torch::randperm(6);
  const auto x = double_randn({10, 6});
  torch::nn::Linear model(6, 3);
  torch::nn::Linear permuted(6, 3);
  model->to(torch::kFloat64);
  permuted->to(torch::kFloat64);
  copy_values(model, permuted);
  {
    const torch::NoGradGuard no_grad;
    permuted->weight.copy_(model->weight.index_select(1, order));
  }
  AdaAct optimizer(*model);
  AdaAct permuted_optimizer(*permuted);
  for (int t = 0; t < 3; ++t) {
    optimizer.zero_grad();
    model->forward(x).sin().sum().backward();
    optimizer.step();
    permuted_optimizer.zero_grad();
    permuted->forward(x.index_select(1, order)).sin().sum().backward();
    permuted_optimizer.step();
  }
  EXPECT_TRUE(all_close(permuted_optimizer.second_moment(permuted->weight),
                        optimizer.second_moment(model->weight).index_select(1, order), 1e-13));
  EXPECT_TRUE(
      all_close(permuted->weight.detach(), model->weight.detach().index_select(1, order), 1e-13));
}

TEST(AdaActTheory, NeuronWiseAdaptivityRowsThatReadTheSameInputShareTheirStepSize) {
  torch::nn::Linear model(torch::nn::LinearOptions(4, 3).bias(false));
  model->to(torch::kFloat64);
  const auto before = model->weight.detach().clone();
  AdaAct optimizer(*model, AdaActOptions(0.1).weight_decay(0.0));
  model->forward(double_randn({5, 4})).sin().sum().backward();
  optimizer.step();
  const auto step_size = (before - model->weight.detach()) / model->weight.grad();  // (rows, n)
  EXPECT_TRUE(all_close(step_size, step_size[0].expand_as(step_size), 1e-12));
  EXPECT_FALSE(torch::allclose(step_size.select(1, 0), step_size.select(1, 1)));
}

// The vectorised update is the plain one.

class AdaActUpdate : public ::testing::TestWithParam<torch::ScalarType> {};

TEST_P(AdaActUpdate, CpuAgreesWithPlainTensorOperations) {
  const auto dtype = GetParam();
  const auto state = dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  torch::manual_seed(43);
  for (const auto& [rows, n, inputs] :
       {std::tuple{1, 1, 1}, {3, 5, 1}, {12, 17, 4}, {64, 200, 2}}) {
    const auto theta = torch::randn({rows, n}).to(dtype);
    const auto m = torch::randn({rows, n}, state);
    const auto g = torch::randn({rows, n}).to(dtype);
    const auto denominator = torch::rand({inputs, n}, state) + 0.1;
    const adaact::AdaActScalars step{0.1, 0.9, 0.02, 0.271};
    auto plain_theta = theta.clone();
    auto plain_m = m.clone();
    auto cpu_theta = theta.clone();
    auto cpu_m = m.clone();
    adaact::adaact_update_anywhere(plain_theta, plain_m, g, denominator, step);
    adaact::adaact_update_cpu(cpu_theta, cpu_m, g, denominator, step);
    EXPECT_TRUE(all_close(cpu_m, plain_m, tolerance(state)));
    const auto last_bit = dtype == torch::kBFloat16 ? 8e-3
                          : dtype == torch::kHalf   ? 1e-3
                                                    : tolerance(dtype);
    EXPECT_TRUE(all_close(cpu_theta, plain_theta, last_bit));
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, AdaActUpdate,
                         ::testing::Values(torch::kFloat64, torch::kFloat32, torch::kBFloat16,
                                           torch::kHalf),
                         [](const auto& info) { return c10::toString(info.param); });

}  // namespace
