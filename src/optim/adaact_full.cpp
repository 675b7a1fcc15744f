// AdaAct with the full covariance of a layer's input in place of its diagonal:
//
//   A_t = β₂ A_{t−1} + (1−β₂) E[ã ãᵀ]        (S, n', n'), n' = n + 1 with a bias
//   Ĝ_t = M̂_t ((Â_t + δI)ᵖ + εI)⁻¹           M̂ (rows, n'): weight and bias side by side

#include "optim/adaact_full.h"

#include <algorithm>

#include "optim/adaact_internals.h"
#include "optim/param_state.h"
#include "optim/row_moments.h"
#include "optim/symmetric_eigen.h"

namespace adaact {
namespace {

torch::Tensor inverse_power(const torch::Tensor& a_hat, const AdaActOptions& options) {
  const auto [values, q] = symmetric_eigen(a_hat);
  const auto scale = (values + options.damping()).pow(options.power()) + options.eps();
  return rebuilt(q, scale.reciprocal()).to(a_hat.scalar_type());
}

/// Moves M and returns M̂.
torch::Tensor averaged_gradient(const MatrixUpdate& update, const AdaActOptions& options,
                                std::int64_t updates_of_m) {
  const auto beta1 = std::get<0>(options.betas());
  update.m.mul_(beta1).add_(update.g.to(update.m.dtype()), 1.0 - beta1);  // M_t
  return update.m / bias_correction(beta1, updates_of_m);
}

void apply(const torch::Tensor& theta, const torch::Tensor& g_hat, const AdaActOptions& options) {
  theta.mul_(1.0 - options.lr() * options.weight_decay()).sub_(g_hat, options.lr());  // θ_t
}

}  // namespace

torch::Tensor refreshed_preconditioner(const torch::Tensor& preconditioner,
                                       const RowMoments& moments, const AdaActOptions& options) {
  const auto period = options.refresh_period();
  const bool due = std::any_of(
      moments.segments.begin(), moments.segments.end(),
      [&](const RowSegment& segment) { return segment.observations % period == 1 % period; });
  const bool fits = preconditioner.defined() && preconditioner.sizes() == moments.ema.sizes();
  if (!due && fits) return preconditioner;
  return inverse_power(unbiased(moments, std::get<1>(options.betas())), options);
}

bool AdaAct::has_full_covariance(std::size_t weight) const {
  const auto* state = find_state(weight);
  return state != nullptr && state->preconditioner().defined();
}

void AdaAct::update_with_full_covariance(std::size_t weight_index, bool with_bias) {
  const auto& weight = parameter(weight_index).tensor;
  const auto& options = options_of(weight_index);
  auto& state = state_of(weight_index);
  auto w = begin_update(weight, state, weight.size(0));
  auto m_hat = averaged_gradient(w, options, state.step());  // M̂_t (rows, n)
  auto g = w.g.to(m_hat.dtype());

  const auto bias_index = internals_->joint_biases[weight_index];
  if (bias_index != LayerMap::kNotFound) {
    auto m_column = torch::zeros({m_hat.size(0), 1}, m_hat.options());  // of a bias that stays
    auto g_column = m_column;
    if (with_bias) {
      const auto& bias = parameter(bias_index).tensor;
      auto& bias_state = state_of(bias_index);
      auto b = begin_update(bias, bias_state, bias.numel());
      m_column = averaged_gradient(b, options_of(bias_index), bias_state.step());
      g_column = b.g.to(m_hat.dtype());
    }
    m_hat = torch::cat({m_hat, m_column}, 1);  // M̂_t (rows, n + 1)
    g = torch::cat({g, g_column}, 1);
  }

  // Rows that belong to no segment follow the rule for unobserved parameters.
  auto g_hat = (options.unobserved_rule() == UnobservedRule::PlainGradient ? g : m_hat).clone();
  const auto preconditioner = following(state.preconditioner(), weight);
  const auto& segments = state.moments().segments;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const auto rows = segments[s].end - segments[s].begin;
    const auto m_rows = m_hat.narrow(0, segments[s].begin, rows);
    g_hat.narrow(0, segments[s].begin, rows)
        .copy_(m_rows.matmul(preconditioner[static_cast<std::int64_t>(s)]));  // Ĝ_t
  }
  apply(w.theta.matrix(), g_hat.narrow(1, 0, w.m.size(1)), options);
  w.theta.finish();
  if (with_bias) {
    apply(parameter(bias_index).tensor.detach(), g_hat.select(1, g_hat.size(1) - 1),
          options_of(bias_index));
  }
}

}  // namespace adaact
