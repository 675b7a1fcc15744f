#pragma once

// AdaAct: H. Seung, J. Lee, H. Ko, "An Adaptive Method Stabilizing Activations for Enhanced
// Generalization", ICDMW 2024. docs/algorithm.md maps each line of its Algorithm 1 to the code.

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <adaact/observe/observer.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/non_finite.h>
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

struct AdaActOptions : public torch::optim::OptimizerCloneableOptions<AdaActOptions> {
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

 public:
  /// Throws an error that names the option, its value and what was expected.
  void validate() const;

  std::string to_json() const;
  /// Unknown keys are an error that lists the known ones; absent keys keep their default.
  static AdaActOptions from_json(const std::string& text);

  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override;
  void set_lr(const double lr) override;  // NOLINT(readability-avoid-const-params-in-decls)
};

bool operator==(const AdaActOptions& left, const AdaActOptions& right);

/// State of one parameter. M counts the updates of this parameter, V those of this layer's input.
struct AdaActParamState : public torch::optim::OptimizerCloneableParamState<AdaActParamState> {
  TORCH_ARG(std::int64_t, step) = 0;         // updates of M
  TORCH_ARG(torch::Tensor, exp_avg);         // M, not bias corrected
  TORCH_ARG(RowMoments, moments);            // V; a bias has segments alone, its input being 1
  TORCH_ARG(torch::Tensor, preconditioner);  // ((Â + δI)ᵖ + εI)⁻¹ per row segment, Full only
};

struct PendingMoment;

struct ParameterCoverage {
  std::string name;
  bool observed = false;
  std::string reason;  // why, or why not
};

/// Scales each layer's update by the second moment of the layer's input. Takes the place of
/// torch::optim::Adam in a program without a change to the model:
///
///   adaact::AdaAct optimizer(*model, adaact::AdaActOptions(0.1).weight_decay(2e-3));
///
/// Statistics belong to steps: what is observed between two steps, in however many forward passes,
/// counts as one batch. zero_grad() leaves it alone. So a forward pass that belongs to no step must
/// not be observed: evaluate under torch::NoGradGuard, in evaluation mode, or in a
/// pause_observation().
class AdaAct : public torch::optim::Optimizer, public HasNamedState {
 public:
  /// All parameters of the module in one group.
  explicit AdaAct(torch::nn::Module& module, const AdaActOptions& defaults = {});
  /// Groups of the module's parameters; a group without options takes the defaults.
  AdaAct(torch::nn::Module& module, std::vector<torch::optim::OptimizerParamGroup> param_groups,
         const AdaActOptions& defaults = {});
  /// For what is no torch::nn::Module, such as a TorchScript module: layers are recognised when
  /// they are first used.
  explicit AdaAct(const NamedTensors& named_parameters, const AdaActOptions& defaults = {});
  AdaAct(const NamedTensors& named_parameters,
         std::vector<torch::optim::OptimizerParamGroup> param_groups,
         const AdaActOptions& defaults = {});

  AdaAct(AdaAct&& other) noexcept;
  ~AdaAct() override;

  /// Throws what went wrong in an observation since the last step, NonFiniteError, or an error that
  /// names a parameter with a sparse gradient; in each case nothing has changed but that the pending
  /// observations are dropped.
  torch::Tensor step(LossClosure closure = nullptr) override;

  /// Also checks the options and that the parameters belong to the model.
  void add_param_group(const torch::optim::OptimizerParamGroup& param_group);

  /// Observation stops while the returned object lives.
  [[nodiscard]] ObservationPause pause_observation() const;
  /// Forgets what was observed since the last step.
  void discard_observations();
  /// Reports the input of a layer that no LibTorch operator shows, as Observer::observe.
  void observe(const torch::Tensor& weight, const torch::Tensor& input,
               const Geometry& geometry = Geometry::linear());

  /// For every parameter: is its update scaled by an observed input, and if not, why.
  std::vector<ParameterCoverage> coverage() const;

  /// Steps rejected under NonFinitePolicy::Skip.
  std::int64_t skipped_steps() const noexcept;

  /// V̂ of a weight, bias corrected, one row per run of weight rows that reads the same input:
  /// (S, n), or (S, n, n) for the full covariance. Undefined before the first observation.
  torch::Tensor second_moment(const torch::Tensor& weight) const;

  NamedState named_state() { return NamedState(*this); }
  OptimizerState export_state() const override;
  void import_state(const OptimizerState& state, const std::string& source) override;

  /// LibTorch's archives (torch::save) hold the same named state.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct Internals;

  AdaAct(LayerMap map, std::vector<torch::optim::OptimizerParamGroup> param_groups,
         const AdaActOptions& defaults);

  AdaActParamState& state_of(const torch::Tensor& parameter);
  const AdaActParamState* find_state(const torch::Tensor& parameter) const;
  void index_parameters();
  void index_new_parameters();
  void forget_moments_of_another_shape();
  void check_gradients() const;
  std::string find_non_finite(const std::vector<PendingMoment>& pending) const;
  void update_moments(const std::vector<PendingMoment>& pending);
  void update_parameters();
  void update_parameter(std::size_t index);
  bool has_full_covariance(std::size_t weight) const;
  void update_with_full_covariance(std::size_t weight, bool with_bias);
  void warn_about_unseen_layers() const;

  std::unique_ptr<Internals> internals_;
};

}  // namespace adaact
