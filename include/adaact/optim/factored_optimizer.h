#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <adaact/optim/observing_optimizer.h>

namespace adaact {

/// How a damped factor is inverted.
enum class InverseMethod : std::uint8_t { Cholesky, Eigen };

/// Second moments of what flows into (A) and out of (P) rows [begin, end) of a weight, split evenly
/// into g groups, and what was computed from them at the last refresh.
struct KroneckerFactors {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t updates = 0;  // of the averages
  torch::Tensor a;           // A (g, n, n), n inputs, with a bias n + 1; not bias corrected
  torch::Tensor p;           // P (g, r, r), r outputs; undefined in FOOF; not bias corrected

  torch::Tensor a_inverse, p_inverse;  // damped inverses, or
  torch::Tensor a_vectors, a_values;   // eigenvectors and eigenvalues
  torch::Tensor p_vectors, p_values;

  bool is_inverted() const { return a_inverse.defined() || a_vectors.defined(); }
};

/// State of one parameter of FOOF or KFAC.
struct FactoredParamState : public torch::optim::OptimizerCloneableParamState<FactoredParamState> {
  TORCH_ARG(torch::Tensor, momentum_buffer);
  TORCH_ARG(std::vector<KroneckerFactors>, factors);  // one but for packed projections
};

struct FactorSettings;
struct FactorSums;

/// What FOOF and KFAC share: when factors are measured, averaged and inverted, and what is done with
/// the gradient v that comes out:
///
///   d = ν v + λθ,  buf = μ buf + d,  θ ← θ − η buf
///
/// A parameter without factors takes v = g.
class FactoredOptimizer : public ObservingOptimizer {
 public:
  ~FactoredOptimizer() override;

 protected:
  FactoredOptimizer(LayerMap model, std::unique_ptr<torch::optim::OptimizerOptions> defaults,
                    const StateCodec& codec);
  FactoredOptimizer(FactoredOptimizer&&) noexcept;

  virtual FactorSettings settings_of(std::size_t index) const = 0;
  /// Fills in what precondition() needs from A and P without bias: Â (g, n, n), P̂ (g, r, r).
  virtual void invert(KroneckerFactors& factors, const torch::Tensor& a_hat,
                      const torch::Tensor& p_hat, std::size_t weight) const = 0;
  /// v of the gradient, both (g, r, n).
  virtual torch::Tensor precondition(const torch::Tensor& gradient, const KroneckerFactors& factors,
                                     std::size_t weight) const = 0;

 private:
  std::shared_ptr<const StepStatistics> measure() override;
  void decide(const StepStatistics& statistics) override;
  void apply(const StepStatistics& statistics) override;
  void settle(std::int64_t steps) override;
  void clear_observations() override;
  void on_groups_indexed() override;
  std::string why_observed(std::size_t index) const override;
  std::string why_not_observed(std::size_t index) const override;
  std::string rule_for_unobserved() const override { return "momentum SGD"; }

  FactoredParamState& state_of(std::size_t index);
  const FactoredParamState* find_state(std::size_t index) const;
  const std::vector<KroneckerFactors>* find_factors(std::size_t index) const;
  void choose_what_to_measure();
  /// What this rank has observed. Throws what went wrong in an observation.
  std::vector<FactorSums> observe_on_this_rank();

  // The parts of decide(). What can fail because of what was observed comes first, and changes nothing.
  using Factors = std::vector<KroneckerFactors>;
  std::map<std::size_t, Factors> next_factors(const StepStatistics& statistics) const;
  void take_over(std::map<std::size_t, Factors>&& next);
  void prepare_buffers();
  void set_rates();
  // The parts of apply(), which ask the device nothing.
  std::map<std::size_t, torch::Tensor> preconditioned_gradients() const;
  torch::Tensor kl_divergence(const std::map<std::size_t, torch::Tensor>& preconditioned) const;
  void clip(std::map<std::size_t, torch::Tensor>& preconditioned) const;
  void move_parameters(const std::map<std::size_t, torch::Tensor>& preconditioned) const;

  void log_factors_too_large();

  struct Internals;
  std::unique_ptr<Internals> internals_;
};

}  // namespace adaact
