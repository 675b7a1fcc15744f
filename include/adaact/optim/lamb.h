#pragma once

// LAMB: Y. You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes",
// ICLR 2020, in the form that timm made common.

#include <cstdint>
#include <tuple>
#include <vector>

#include <adaact/optim/named_optimizer.h>
#include <adaact/optim/options.h>

namespace adaact {

struct LambOptions : public JsonOptions<LambOptions> {
  using betas_t = std::tuple<double, double>;

  LambOptions(double lr = 1e-3);  // NOLINT(google-explicit-constructor): as LibTorch's options

  TORCH_ARG(double, lr) = 1e-3;                             // η
  TORCH_ARG(betas_t, betas) = std::make_tuple(0.9, 0.999);  // β₁ of m, β₂ of v
  TORCH_ARG(double, eps) = 1e-6;                            // ε
  TORCH_ARG(double, weight_decay) = 0.01;                   // λ
  TORCH_ARG(double, max_grad_norm) = 1.0;                   // of all gradients together
  TORCH_ARG(bool, trust_clip) = false;                      // r ≤ 1
  TORCH_ARG(bool, always_adapt) = false;                    // r also where λ = 0
  TORCH_ARG(NonFinitePolicy, non_finite_policy) = NonFinitePolicy::Throw;  // the same in all groups
};

extern template struct JsonOptions<LambOptions>;

struct LambParamState : public torch::optim::OptimizerCloneableParamState<LambParamState> {
  TORCH_ARG(std::int64_t, step) = 0;     // t: updates of this parameter
  TORCH_ARG(torch::Tensor, exp_avg);     // m
  TORCH_ARG(torch::Tensor, exp_avg_sq);  // v
};

struct LambNumbers;

/// Adam whose step per tensor is as long, relative to the tensor, as the learning rate says.
class Lamb : public NamedOptimizer {
 public:
  /// All parameters of the model in one group.
  explicit Lamb(LayerMap model, const LambOptions& defaults = {});
  /// Groups of the model's parameters; a group without options takes the defaults.
  Lamb(LayerMap model, std::vector<torch::optim::OptimizerParamGroup> param_groups,
       const LambOptions& defaults = {});

 private:
  void apply(const StepStatistics& statistics) override;
  void settle(std::int64_t steps) override;
  bool apply_on_gpu(const std::vector<std::size_t>& indices);
  void apply_plainly(const std::vector<std::size_t>& indices);
  LambNumbers numbers_of(std::size_t index, std::int64_t updates) const;

  std::vector<std::size_t> updated_;  // parameters, in the last step
};

}  // namespace adaact
