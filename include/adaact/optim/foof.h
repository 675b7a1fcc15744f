#pragma once

// FOOF: F. Benzing, "Gradient Descent on Neurons and its Link to Approximate Second-Order
// Optimization", ICML 2022.

#include <cstdint>
#include <limits>
#include <vector>

#include <adaact/optim/factored_optimizer.h>
#include <adaact/optim/options.h>

namespace adaact {

/// How A is averaged, and when its inverse is first used.
enum class FoofScale : std::uint8_t {
  Paper,  // A keeps β₂ of the past and is corrected for its start at 0; its inverse is used at once
  Authors,  // A keeps 1 − β₂ of the past and starts at I, which is its inverse for the first T_inv steps
};

struct FoofOptions : public JsonOptions<FoofOptions> {
  FoofOptions(double lr = 0.05);  // NOLINT(google-explicit-constructor): as LibTorch's options

  TORCH_ARG(double, lr) = 0.05;                    // η
  TORCH_ARG(double, momentum) = 0.9;               // μ
  TORCH_ARG(double, beta2) = 0.95;                 // β₂ of A
  TORCH_ARG(double, weight_decay) = 5e-4;          // λ, added to the preconditioned gradient
  TORCH_ARG(double, damping) = 1.0;                // δ
  TORCH_ARG(std::int64_t, covariance_period) = 5;  // T_cov in steps
  TORCH_ARG(std::int64_t, inverse_period) = 50;    // T_inv in steps
  TORCH_ARG(InverseMethod, inverse) = InverseMethod::Cholesky;
  TORCH_ARG(FoofScale, scale) = FoofScale::Paper;
  TORCH_ARG(double, kl_clip) = std::numeric_limits<double>::infinity();    // κ; off by default
  TORCH_ARG(std::int64_t, max_factor_size) = 8192;                         // rows of A
  TORCH_ARG(NonFinitePolicy, non_finite_policy) = NonFinitePolicy::Throw;  // the same in all groups
};

extern template struct JsonOptions<FoofOptions>;

using FoofParamState = FactoredParamState;

/// Multiplies each layer's gradient by the inverse covariance of the layer's input.
class Foof : public FactoredOptimizer {
 public:
  /// All parameters of the model in one group.
  explicit Foof(LayerMap model, const FoofOptions& defaults = {});
  /// Groups of the model's parameters; a group without options takes the defaults.
  Foof(LayerMap model, std::vector<torch::optim::OptimizerParamGroup> param_groups,
       const FoofOptions& defaults = {});

 private:
  const FoofOptions& options_of(std::size_t index) const;
  FactorSettings settings_of(std::size_t index) const override;
  void invert(KroneckerFactors& factors, const torch::Tensor& a_hat, const torch::Tensor& p_hat,
              std::size_t weight) const override;
  torch::Tensor precondition(const torch::Tensor& gradient, const KroneckerFactors& factors,
                             std::size_t weight) const override;
};

}  // namespace adaact
