// Symbols of the paper and where they live:
//
//   ã   (n)       a layer's input; with a bias the last entry is always 1
//   s   (r)       gradient of a sample's loss with respect to the layer's output
//   A   (g, n, n) average of E[Σ ã ãᵀ], Σ over positions       KroneckerFactors::a
//   P   (g, r, r) average of E[s sᵀ] over samples and positions  KroneckerFactors::p
//   v   (g, r, n) (P̂ ⊗ Â + δI)⁻¹ applied to G                  Kfac::precondition
//
// Averages move every T_cov steps; what precondition() needs is refreshed every T_inv steps. A sums
// over positions where P averages (Grosse and Martens, 2016): averaged twice, the product would lose
// a factor of the number of positions, and the damping would rule.

#include <adaact/optim/kfac.h>

#include <utility>

#include "moments/symmetric_eigen.h"
#include "optim/kronecker/factored_codec.h"
#include "optim/kronecker/kronecker_factors.h"

namespace adaact {

template <>
struct OptionDescription<KfacOptions> {
  static constexpr char kOptimizer[] = "Kfac";

  template <typename Options, typename Visitor>
  static void visit(Options& options, Visitor&& visit) {
    static const EnumNames<KfacScale> scales{{"per_sample", KfacScale::PerSample},
                                             {"authors", KfacScale::Authors}};
    visit("lr", options.lr(), at_least(0.0));
    visit("momentum", options.momentum(), from_up_to(0.0, 1.0));
    visit("beta2", options.beta2(), from_up_to(0.0, 1.0));
    visit("weight_decay", options.weight_decay(), at_least(0.0));
    visit("damping", options.damping(), divisor());
    visit("kl_clip", options.kl_clip(), above(0.0).or_infinity());
    visit("covariance_period", options.covariance_period(), at_least(1));
    visit("inverse_period", options.inverse_period(), at_least(1));
    visit("inverse", options.inverse(), inverse_method_names());
    visit("scale", options.scale(), scales);
    visit("max_factor_size", options.max_factor_size(), at_least(0));
    visit("non_finite_policy", options.non_finite_policy(), non_finite_policy_names());
  }
};

namespace {

torch::Tensor mean_diagonal(const torch::Tensor& matrix) {
  return matrix.diagonal(0, -2, -1).to(torch::kFloat64).mean(-1);  // (g)
}

}  // namespace

KfacOptions::KfacOptions(double lr) : lr_(lr) {}

template struct JsonOptions<KfacOptions>;

Kfac::Kfac(LayerMap model, const KfacOptions& defaults) : Kfac(std::move(model), {}, defaults) {}

Kfac::Kfac(LayerMap model, std::vector<torch::optim::OptimizerParamGroup> param_groups,
           const KfacOptions& defaults)
    : FactoredOptimizer(std::move(model), std::make_unique<KfacOptions>(defaults),
                        FactoredCodec<KfacOptions, FactorKinds::AAndP>::instance()) {
  add_param_groups(std::move(param_groups));
}

const KfacOptions& Kfac::options_of(std::size_t index) const {
  return static_cast<const KfacOptions&>(group_options(index));
}

FactorSettings Kfac::settings_of(std::size_t index) const {
  const auto& options = options_of(index);
  auto settings = factor_settings(options);
  settings.with_gradients = true;
  settings.per_sample = options.scale() == KfacScale::PerSample;
  return settings;
}

void Kfac::invert(KroneckerFactors& factors, const torch::Tensor& a_hat, const torch::Tensor& p_hat,
                  std::size_t weight) const {
  const auto& options = options_of(weight);
  factors.a_inverse = factors.p_inverse = torch::Tensor();
  factors.a_vectors = factors.a_values = factors.p_vectors = factors.p_values = torch::Tensor();
  if (options.inverse() == InverseMethod::Eigen) {
    const auto dtype = a_hat.scalar_type();
    const auto of_a = symmetric_eigen(a_hat);
    const auto of_p = symmetric_eigen(p_hat);
    // Contiguous, as files are: see damped_inverse().
    factors.a_vectors = of_a.vectors.to(dtype).contiguous();  // Q_A
    factors.a_values = of_a.values.to(dtype);                 // d_A
    factors.p_vectors = of_p.vectors.to(dtype).contiguous();  // Q_P
    factors.p_values = of_p.values.to(dtype);                 // d_P
    return;
  }
  // (P + √δ/π I) ⊗ (A + π√δ I) in place of P ⊗ A + δI, π² the ratio of their mean eigenvalues
  // (Martens and Grosse, 2015, section 6.3).
  const auto a_mean = mean_diagonal(a_hat);
  const auto p_mean = mean_diagonal(p_hat);
  const auto balance = torch::where((a_mean > 0.0).logical_and(p_mean > 0.0),
                                    (a_mean / p_mean).sqrt(), torch::ones_like(a_mean));  // π
  const auto root = std::sqrt(options.damping());
  const auto owner = label() + ": a factor of '" + parameter(weight).name + "'";
  factors.a_inverse = damped_inverse(a_hat, balance * root, InverseMethod::Cholesky, owner);
  factors.p_inverse = damped_inverse(p_hat, root / balance, InverseMethod::Cholesky, owner);
}

torch::Tensor Kfac::precondition(const torch::Tensor& gradient, const KroneckerFactors& factors,
                                 std::size_t weight) const {
  if (factors.a_inverse.defined()) {
    return factors.p_inverse.matmul(gradient).matmul(factors.a_inverse);  // v
  }
  const auto& q_a = factors.a_vectors;
  const auto& q_p = factors.p_vectors;
  const auto curvature = factors.p_values.unsqueeze(-1) * factors.a_values.unsqueeze(-2);
  const auto rotated = q_p.transpose(-2, -1).matmul(gradient).matmul(q_a);
  const auto scaled = rotated / (curvature + options_of(weight).damping());
  return q_p.matmul(scaled).matmul(q_a.transpose(-2, -1));  // v
}

}  // namespace adaact
