#pragma once

#include <string>
#include <vector>

#include <adaact/optim/factored_optimizer.h>

#include "optim/base/describe_options.h"
#include "optim/kronecker/factor_listener.h"

namespace adaact {

/// What both algorithms need to know of a parameter's options.
struct FactorSettings {
  double lr = 0.0;            // η
  double momentum = 0.0;      // μ
  double beta2 = 0.0;         // β₂
  double weight_decay = 0.0;  // λ
  double kl_clip = 0.0;       // κ
  std::int64_t covariance_period = 1;
  std::int64_t inverse_period = 1;
  std::int64_t max_factor_size = 0;
  bool with_gradients = false;      // P as well as A
  bool per_sample = false;          // A summed over positions, P of gradients times the batch size
  bool starts_at_identity = false;  // averages do, not at 0, and need no correction
};

/// What the options of both have in common.
template <typename Options>
FactorSettings factor_settings(const Options& options) {
  FactorSettings settings;
  settings.lr = options.lr();
  settings.momentum = options.momentum();
  settings.beta2 = options.beta2();
  settings.weight_decay = options.weight_decay();
  settings.kl_clip = options.kl_clip();
  settings.covariance_period = options.covariance_period();
  settings.inverse_period = options.inverse_period();
  settings.max_factor_size = options.max_factor_size();
  return settings;
}

inline const EnumNames<InverseMethod>& inverse_method_names() {
  static const EnumNames<InverseMethod> names{{"cholesky", InverseMethod::Cholesky},
                                              {"eigen", InverseMethod::Eigen}};
  return names;
}

/// A_t = β₂ A_{t−1} + (1−β₂) E[a aᵀ], and so for P, for the rows observed in this step; the others
/// keep theirs. Where rows are used in other runs than before, runs are split: A is shared by the
/// parts, P keeps its diagonal blocks.
std::vector<KroneckerFactors> averaged(std::vector<KroneckerFactors> factors,
                                       std::vector<FactorSums> sums,
                                       const FactorSettings& settings);

/// (M + δI)⁻¹ of symmetric positive semi-definite matrices (g, n, n), in float64 inside. δ (g) may
/// differ between them. An error begins with the owner's name.
torch::Tensor damped_inverse(const torch::Tensor& matrix, const torch::Tensor& damping,
                             InverseMethod method, const std::string& owner);

/// Calls visit(name, tensor) for what was computed at the last refresh.
template <typename Factors, typename Visitor>
void visit_refreshed(Factors& factors, Visitor&& visit) {
  visit("a_inverse", factors.a_inverse);
  visit("p_inverse", factors.p_inverse);
  visit("a_vectors", factors.a_vectors);
  visit("a_values", factors.a_values);
  visit("p_vectors", factors.p_vectors);
  visit("p_values", factors.p_values);
}

/// Calls visit(name, tensor) for everything that factors hold.
template <typename Factors, typename Visitor>
void visit_tensors(Factors& factors, Visitor&& visit) {
  visit("a", factors.a);
  visit("p", factors.p);
  visit_refreshed(factors, visit);
}

}  // namespace adaact
