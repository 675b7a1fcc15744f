// Symbols of the paper and where they live:
//
//   ã   (n)       a layer's input; with a bias the last entry is always 1
//   A   (g, n, n) average of E[ã ãᵀ] over samples and positions, every T_cov steps
//                                                            KroneckerFactors::a
//   v   (g, r, n) G (Â + δI)⁻¹, the inverse every T_inv steps  Foof::precondition

#include <adaact/optim/foof.h>

#include <utility>

#include "optim/kronecker/factored_codec.h"
#include "optim/kronecker/kronecker_factors.h"

namespace adaact {

template <>
struct OptionDescription<FoofOptions> {
  static constexpr char kOptimizer[] = "Foof";

  template <typename Options, typename Visitor>
  static void visit(Options& options, Visitor&& visit) {
    static const EnumNames<FoofScale> scales{{"paper", FoofScale::Paper},
                                             {"authors", FoofScale::Authors}};
    visit("lr", options.lr(), at_least(0.0));
    visit("momentum", options.momentum(), from_up_to(0.0, 1.0));
    visit("beta2", options.beta2(), from_up_to(0.0, 1.0));
    visit("weight_decay", options.weight_decay(), at_least(0.0));
    visit("damping", options.damping(), divisor());
    visit("covariance_period", options.covariance_period(), at_least(1));
    visit("inverse_period", options.inverse_period(), at_least(1));
    visit("inverse", options.inverse(), inverse_method_names());
    visit("scale", options.scale(), scales);
    visit("kl_clip", options.kl_clip(), above(0.0).or_infinity());
    visit("max_factor_size", options.max_factor_size(), at_least(0));
    visit("non_finite_policy", options.non_finite_policy(), non_finite_policy_names());
  }
};

FoofOptions::FoofOptions(double lr) : lr_(lr) {}

template struct JsonOptions<FoofOptions>;

Foof::Foof(LayerMap model, const FoofOptions& defaults) : Foof(std::move(model), {}, defaults) {}

Foof::Foof(LayerMap model, std::vector<torch::optim::OptimizerParamGroup> param_groups,
           const FoofOptions& defaults)
    : FactoredOptimizer(std::move(model), std::make_unique<FoofOptions>(defaults),
                        FactoredCodec<FoofOptions, FactorKinds::A>::instance()) {
  add_param_groups(std::move(param_groups));
}

const FoofOptions& Foof::options_of(std::size_t index) const {
  return static_cast<const FoofOptions&>(group_options(index));
}

FactorSettings Foof::settings_of(std::size_t index) const {
  const auto& options = options_of(index);
  auto settings = factor_settings(options);
  if (options.scale() == FoofScale::Authors) {
    settings.beta2 = 1.0 - options.beta2();
    // An average that starts at the identity has no bias to correct. The authors' code divides it by 1 − β₂ᵏ all the
    // same, k the layers observed so far in all steps together: when their inverse is first used, after ten averages
    // of a ResNet-20, by 0.99996.
    settings.starts_at_identity = true;
  }
  return settings;
}

void Foof::invert(KroneckerFactors& factors, const torch::Tensor& a_hat,
                  const torch::Tensor& /*p_hat*/, std::size_t weight) const {
  const auto& options = options_of(weight);
  if (options.scale() == FoofScale::Authors && steps() < options.inverse_period()) {
    factors.a_inverse = torch::eye(a_hat.size(-1), a_hat.options()).expand_as(a_hat).contiguous();
    return;
  }
  const auto damping = torch::full({a_hat.size(0)}, options.damping(), torch::kFloat64);
  factors.a_inverse =
      damped_inverse(a_hat, damping, options.inverse(),
                     label() + ": the factor of '" + parameter(weight).name + "'");  // (Â + δI)⁻¹
}

torch::Tensor Foof::precondition(const torch::Tensor& gradient, const KroneckerFactors& factors,
                                 std::size_t /*weight*/) const {
  return gradient.matmul(factors.a_inverse);  // v
}

}  // namespace adaact
