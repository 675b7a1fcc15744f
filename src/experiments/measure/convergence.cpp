#include "experiments/measure/convergence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <adaact/optim/adaact.h>
#include <torch/torch.h>

#include "report/format.h"
#include "report/mean_and_error.h"

namespace adaact {
namespace {

constexpr std::int64_t kSamples = 256;
constexpr std::int64_t kInputs = 6;
constexpr std::int64_t kOutputs = 4;
constexpr std::int64_t kBatch = 8;
constexpr std::uint64_t kProblemSeed = 100;
constexpr std::int64_t kFirstHorizon = 32;
constexpr double kPlacesPerDoubling = 16.0;
constexpr double kClipLow = 0.05;   // c_L
constexpr double kClipHigh = 20.0;  // c_U

constexpr double kLargestValue = 2.0;
constexpr char kDecayingRate[] = "1/sqrt(t)";  // η_t

torch::Tensor bounded_normal(at::IntArrayRef sizes) {
  return torch::randn(sizes, torch::kFloat64).clamp(-kLargestValue, kLargestValue);
}

/// The learning rate is set in every step.
AdaActOptions convergence_options() {
  return AdaActOptions(1.0).weight_decay(0.0).clip_range({kClipLow, kClipHigh});
}

/// f(W) = mean over a fixed data set of a smooth, nonconvex loss of W·a − y.
class NonconvexProblem {
 public:
  NonconvexProblem()
      : inputs_(bounded_normal({kSamples, kInputs})),
        targets_(bounded_normal({kSamples, kOutputs})) {}

  /// f at the weights of the model.
  torch::Tensor loss(torch::nn::Linear& model) const { return loss(model, inputs_, targets_); }

  /// The loss of a random batch: its gradient is ∇f with noise of mean 0.
  torch::Tensor noisy_loss(torch::nn::Linear& model) const {
    const auto rows = torch::randint(0, kSamples, {kBatch});
    return loss(model, inputs_.index_select(0, rows), targets_.index_select(0, rows));
  }

 private:
  /// Cauchy's loss: not convex, with a bounded gradient.
  static torch::Tensor loss(torch::nn::Linear& model, const torch::Tensor& inputs,
                            const torch::Tensor& targets) {
    return (1.0 + (model->forward(inputs) - targets).square()).log().mean();
  }

  torch::Tensor inputs_;
  torch::Tensor targets_;
};

/// ‖∇f‖²
double squared_gradient_norm(const NonconvexProblem& problem, torch::nn::Linear& model,
                             AdaAct& optimizer) {
  const auto pause = optimizer.pause_observation();
  optimizer.zero_grad();
  problem.loss(model).backward();
  double sum = 0.0;
  for (const auto& parameter : model->parameters()) {
    sum += parameter.grad().square().sum().item<double>();
  }
  return sum;
}

/// A power of 2 that is not too small for a rate.
bool is_horizon(std::int64_t t) { return t >= kFirstHorizon && (t & (t - 1)) == 0; }

double rate_at(std::int64_t horizon) {
  const auto t = static_cast<double>(horizon);
  return std::log(t) / std::sqrt(t);
}

}  // namespace

/// Evenly spread over log t; the powers of 2 are among them.
std::vector<std::int64_t> iterations_with_gradients(std::int64_t steps) {
  std::set<std::int64_t> places;
  for (int place = 0;; ++place) {
    const auto t = std::llround(std::exp2(place / kPlacesPerDoubling));
    if (t > steps) break;
    places.insert(t);
  }
  return {places.begin(), places.end()};
}

IterationCurve squared_gradient_norms(std::int64_t steps, std::uint64_t seed,
                                      const std::function<void(const std::string&)>& progress) {
  torch::manual_seed(kProblemSeed);
  const NonconvexProblem problem;
  torch::nn::Linear model(kInputs, kOutputs);
  model->to(torch::kFloat64);
  AdaAct optimizer(*model, convergence_options());
  torch::manual_seed(seed);

  IterationCurve norms{iterations_with_gradients(steps), {}};
  std::int64_t t = 1;
  for (const auto place : norms.iterations) {
    for (; t < place; ++t) {
      const auto rate = 1.0 / std::sqrt(static_cast<double>(t));  // η_t
      optimizer.param_groups()[0].options().set_lr(rate);
      optimizer.zero_grad();
      problem.noisy_loss(model).backward();
      optimizer.step();
    }
    norms.values.push_back(squared_gradient_norm(problem, model, optimizer));
    if (!is_horizon(place)) continue;
    progress("iteration " + grouped(place) + ": ‖∇f‖² " + rounded(norms.values.back()));
  }
  return norms;
}

nlohmann::ordered_json convergence_setting() {
  const auto options = convergence_options();
  const auto [beta1, beta2] = options.betas();
  return {{"problem", "a linear layer under Cauchy's loss"},
          {"samples", kSamples},
          {"inputs", kInputs},
          {"outputs", kOutputs},
          {"largest_value", kLargestValue},
          {"problem_seed", kProblemSeed},
          {"batch", kBatch},
          {"learning_rate", kDecayingRate},
          {"betas", {beta1, beta2}},
          {"eps", options.eps()},
          {"power", options.power()},
          {"weight_decay", options.weight_decay()},
          {"clip_range", {kClipLow, kClipHigh}},
          {"places_per_doubling", kPlacesPerDoubling}};
}

SmallestGradients smallest_gradients(const std::vector<IterationCurve>& curves) {
  const auto& iterations = curves.front().iterations;
  SmallestGradients smallest;
  MeanAndError minimum{std::numeric_limits<double>::infinity(), 0.0};
  for (std::size_t i = 0; i < iterations.size(); ++i) {
    std::vector<double> values(curves.size());
    std::transform(curves.begin(), curves.end(), values.begin(),
                   [i](const IterationCurve& curve) { return curve.values.at(i); });
    const auto expected = mean_and_error(values);
    if (expected.mean < minimum.mean) minimum = expected;
    if (!is_horizon(iterations[i])) continue;
    smallest.minimum.iterations.push_back(iterations[i]);
    smallest.minimum.values.push_back(minimum.mean);
    smallest.standard_errors.push_back(minimum.standard_error);
  }
  return smallest;
}

IterationCurve corollary_rate(const std::vector<std::int64_t>& horizons) {
  IterationCurve curve{horizons, {}};
  for (const auto horizon : horizons) curve.values.push_back(rate_at(horizon));
  return curve;
}

IterationCurve part_from(std::int64_t iteration, const IterationCurve& curve) {
  IterationCurve part;
  for (std::size_t i = 0; i < curve.iterations.size(); ++i) {
    if (curve.iterations[i] < iteration) continue;
    part.iterations.push_back(curve.iterations[i]);
    part.values.push_back(curve.values[i]);
  }
  return part;
}

double fitted_exponent(const IterationCurve& curve) {
  const auto count = static_cast<double>(curve.iterations.size());
  double sum_x = 0.0;
  double sum_y = 0.0;
  double sum_xx = 0.0;
  double sum_xy = 0.0;
  for (std::size_t i = 0; i < curve.iterations.size(); ++i) {
    const auto x = std::log(static_cast<double>(curve.iterations[i]));
    const auto y = std::log(curve.values[i]);
    sum_x += x;
    sum_y += y;
    sum_xx += x * x;
    sum_xy += x * y;
  }
  return (count * sum_xy - sum_x * sum_y) / (count * sum_xx - sum_x * sum_x);
}

double smallest_factor(const IterationCurve& curve) {
  double factor = 0.0;
  for (std::size_t i = 0; i < curve.iterations.size(); ++i) {
    factor = std::max(factor, curve.values[i] / rate_at(curve.iterations[i]));
  }
  return factor;
}

}  // namespace adaact
