#pragma once

// Adan: X. Xie, P. Zhou, H. Li, Z. Lin, S. Yan, "Adan: Adaptive Nesterov Momentum Algorithm for
// Faster Optimizing Deep Models", TPAMI 2024. β here is the paper's 1 − β, as in its authors' code.

#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include <adaact/optim/named_optimizer.h>
#include <adaact/optim/options.h>

namespace adaact {

struct AdanOptions : public JsonOptions<AdanOptions> {
  using betas_t = std::tuple<double, double, double>;

  AdanOptions(double lr = 1e-3);  // NOLINT(google-explicit-constructor): as LibTorch's options

  TORCH_ARG(double, lr) = 1e-3;                                   // η
  TORCH_ARG(betas_t, betas) = std::make_tuple(0.98, 0.92, 0.99);  // β₁ of m, β₂ of v, β₃ of n
  TORCH_ARG(double, eps) = 1e-8;                                  // ε
  TORCH_ARG(double, weight_decay) = 0.02;                         // λ
  TORCH_ARG(bool, proximal) = true;   // θ/(1+ηλ) rather than (1−ηλ)θ
  TORCH_ARG(double, max_grad_norm) =  // of all gradients together
      std::numeric_limits<double>::infinity();
  TORCH_ARG(NonFinitePolicy, non_finite_policy) = NonFinitePolicy::Throw;  // the same in all groups
};

extern template struct JsonOptions<AdanOptions>;

struct AdanParamState : public torch::optim::OptimizerCloneableParamState<AdanParamState> {
  TORCH_ARG(std::int64_t, step) = 0;        // t: updates of this parameter
  TORCH_ARG(torch::Tensor, exp_avg);        // m
  TORCH_ARG(torch::Tensor, exp_avg_diff);   // v
  TORCH_ARG(torch::Tensor, exp_avg_sq);     // n
  TORCH_ARG(torch::Tensor, previous_grad);  // g of the step before, clipped as it was used
};

struct AdanNumbers;

/// Adaptive Nesterov momentum: averages of the gradient, of its change and of the square of both.
class Adan : public NamedOptimizer {
 public:
  /// All parameters of the model in one group.
  explicit Adan(LayerMap model, const AdanOptions& defaults = {});
  /// Groups of the model's parameters; a group without options takes the defaults.
  Adan(LayerMap model, std::vector<torch::optim::OptimizerParamGroup> param_groups,
       const AdanOptions& defaults = {});

 private:
  void apply(const StepStatistics& statistics) override;
  void settle(std::int64_t steps) override;
  bool apply_on_gpu(const std::vector<std::size_t>& indices);
  void apply_plainly(const std::vector<std::size_t>& indices);
  const AdanOptions& options_of(std::size_t index) const;
  AdanNumbers numbers_of(std::size_t index, std::int64_t updates) const;

  std::vector<std::size_t> updated_;  // parameters, in the last step
};

}  // namespace adaact
