#pragma once

// AdaAct: H. Seung, J. Lee, H. Ko, "An Adaptive Method Stabilizing Activations for Enhanced
// Generalization", ICDMW 2024. docs/algorithm.md maps each line of its Algorithm 1 to the code.

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <adaact/moments/moments.h>
#include <adaact/optim/observing_optimizer.h>
#include <adaact/optim/options.h>
#include <adaact/optim/row_moments.h>
#include <torch/optim/optimizer.h>

namespace adaact {

enum class Covariance : std::uint8_t {
  Diagonal,  // one number per input feature: the paper's method
  Full,      // the whole matrix E[ã ãᵀ], which the paper compares with
};

/// What to do with a parameter that has a gradient but no observed input.
enum class UnobservedRule : std::uint8_t {
  PlainGradient,  // θ − η(g + λθ), as the authors' code does
  Momentum,       // as if its input were the constant 1: bias-corrected momentum
};

struct AdaActOptions : public JsonOptions<AdaActOptions> {
  using betas_t = std::tuple<double, double>;
  using range_t = std::tuple<double, double>;

  AdaActOptions(double lr = 0.1);  // NOLINT(google-explicit-constructor): as LibTorch's options

  TORCH_ARG(double, lr) = 0.1;                              // η
  TORCH_ARG(betas_t, betas) = std::make_tuple(0.9, 0.999);  // β₁ of M, β₂ of V
  TORCH_ARG(double, eps) = 1e-8;                            // ε
  TORCH_ARG(double, weight_decay) = 2e-3;                   // λ, decoupled
  TORCH_ARG(double, power) = 0.5;                           // p in V̂ᵖ
  TORCH_ARG(range_t, clip_range) =                          // [c_L, c_U] for Ã; off by default
      std::make_tuple(0.0, std::numeric_limits<double>::infinity());
  TORCH_ARG(Covariance, covariance) = Covariance::Diagonal;
  TORCH_ARG(double, damping) = 1e-2;             // δ added to eigenvalues, Full only
  TORCH_ARG(std::int64_t, refresh_period) = 10;  // T_inv in observations, Full only
  TORCH_ARG(UnobservedRule, unobserved_rule) = UnobservedRule::PlainGradient;
  TORCH_ARG(NonFinitePolicy, non_finite_policy) = NonFinitePolicy::Throw;  // the same in all groups
};

extern template struct JsonOptions<AdaActOptions>;

/// State of one parameter. M counts the updates of this parameter, V those of this layer's input.
struct AdaActParamState : public torch::optim::OptimizerCloneableParamState<AdaActParamState> {
  TORCH_ARG(std::int64_t, step) = 0;         // updates of M
  TORCH_ARG(torch::Tensor, exp_avg);         // M, not bias corrected
  TORCH_ARG(RowMoments, moments);            // V; a bias has segments alone, its input being 1
  TORCH_ARG(torch::Tensor, preconditioner);  // ((Â + δI)ᵖ + εI)⁻¹ per row segment, Full only
};

struct MeasuredLayer;

/// Scales each layer's update by the second moment of the layer's input. Takes the place of
/// torch::optim::Adam in a program without a change to the model:
///
///   adaact::AdaAct optimizer(*model, adaact::AdaActOptions(0.1).weight_decay(2e-3));
///
/// For what is no torch::nn::Module, such as a TorchScript module, script_parameters() takes the
/// place of the model; layers are then recognised when they are first used.
class AdaAct : public ObservingOptimizer {
 public:
  /// All parameters of the model in one group.
  explicit AdaAct(LayerMap model, const AdaActOptions& defaults = {});
  /// Groups of the model's parameters; a group without options takes the defaults.
  AdaAct(LayerMap model, std::vector<torch::optim::OptimizerParamGroup> param_groups,
         const AdaActOptions& defaults = {});
  AdaAct(AdaAct&& other) noexcept;
  ~AdaAct() override;

  /// V̂ of a weight, bias corrected, one row per run of weight rows that reads the same input:
  /// (S, n), or (S, n, n) for the full covariance. Undefined before the first observation.
  torch::Tensor second_moment(const torch::Tensor& weight) const;

  /// Adds to what was observed since the last step a sum that was measured elsewhere, as by a compiled graph: of the
  /// squares of inputs, for rows [row_begin, row_end) of the weight, all of them if row_end is -1. Not with the full
  /// covariance.
  void add_observed(const torch::Tensor& weight, const Moment& moment, std::int64_t row_begin = 0,
                    std::int64_t row_end = -1);

 private:
  struct Internals;

  // A step: src/optim/adaact/adaact.cpp.
  std::shared_ptr<const StepStatistics> measure() override;
  void decide(const StepStatistics& statistics) override;
  void apply(const StepStatistics& statistics) override;
  void settle(std::int64_t steps) override;
  void on_outsized_change(std::size_t index) override;

  void on_groups_indexed() override;
  void clear_observations() override;
  std::string why_observed(std::size_t index) const override;
  std::string rule_for_unobserved() const override { return "unobserved_rule"; }

  const AdaActOptions& options_of(std::size_t index) const;
  const AdaActParamState* find_state(std::size_t index) const;
  void forget_moments_unless(std::size_t index, const MeasuredLayer& layer);
  void prepare_plan(const StepStatistics& statistics);
  void count_in_settle(bool v_moves_on_gpu);

  std::unique_ptr<Internals> internals_;
};

}  // namespace adaact
