#pragma once

// KFAC: J. Martens, R. Grosse, "Optimizing Neural Networks with Kronecker-factored Approximate
// Curvature", ICML 2015; convolutions: R. Grosse, J. Martens, ICML 2016.

#include <cstdint>
#include <vector>

#include <adaact/optim/factored_optimizer.h>
#include <adaact/optim/options.h>

namespace adaact {

/// What the two factors are means of.
enum class KfacScale : std::uint8_t {
  PerSample,  // P of per-sample gradients, A summed over positions: P ⊗ A approximates the Fisher
  Authors,    // P of mean-loss gradients, both averaged over positions, as in the paper's table
};

struct KfacOptions : public JsonOptions<KfacOptions> {
  KfacOptions(double lr = 0.05);  // NOLINT(google-explicit-constructor): as LibTorch's options

  TORCH_ARG(double, lr) = 0.05;                    // η
  TORCH_ARG(double, momentum) = 0.9;               // μ
  TORCH_ARG(double, beta2) = 0.9;                  // β₂ of A and P
  TORCH_ARG(double, weight_decay) = 5e-4;          // λ, added to the preconditioned gradient
  TORCH_ARG(double, damping) = 1e-3;               // δ
  TORCH_ARG(double, kl_clip) = 1e-3;               // κ
  TORCH_ARG(std::int64_t, covariance_period) = 5;  // T_cov in steps
  TORCH_ARG(std::int64_t, inverse_period) = 50;    // T_inv in steps
  TORCH_ARG(InverseMethod, inverse) = InverseMethod::Eigen;  // Cholesky damps each factor by itself
  TORCH_ARG(KfacScale, scale) = KfacScale::PerSample;
  TORCH_ARG(std::int64_t, max_factor_size) = 8192;                         // rows of A and of P
  TORCH_ARG(NonFinitePolicy, non_finite_policy) = NonFinitePolicy::Throw;  // the same in all groups
};

extern template struct JsonOptions<KfacOptions>;

using KfacParamState = FactoredParamState;

/// Natural gradient with the Fisher matrix of each layer as a Kronecker product P ⊗ A of the second
/// moments of output gradients and inputs.
///
/// The loss must be a mean over samples, and a layer's dimension 0 must count them: other leading
/// dimensions are positions. So sequence-first inputs, and a weight used several times in a forward
/// pass, which cannot be told from micro-batches, get a batch size that is not the loss's.
class Kfac : public FactoredOptimizer {
 public:
  /// All parameters of the model in one group.
  explicit Kfac(LayerMap model, const KfacOptions& defaults = {});
  /// Groups of the model's parameters; a group without options takes the defaults.
  Kfac(LayerMap model, std::vector<torch::optim::OptimizerParamGroup> param_groups,
       const KfacOptions& defaults = {});

 private:
  bool needs_output() const override { return true; }
  const KfacOptions& options_of(std::size_t index) const;
  FactorSettings settings_of(std::size_t index) const override;
  void invert(KroneckerFactors& factors, const torch::Tensor& a_hat, const torch::Tensor& p_hat,
              std::size_t weight) const override;
  torch::Tensor precondition(const torch::Tensor& gradient, const KroneckerFactors& factors,
                             std::size_t weight) const override;
};

}  // namespace adaact
