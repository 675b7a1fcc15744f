// AdaAct with the full covariance of a layer's input in place of its diagonal:
//
//   A_t = β₂ A_{t−1} + (1−β₂) E[ã ãᵀ]        (S, n', n'), n' = n + 1 with a bias
//   Ĝ_t = M̂_t ((Â_t + δI)ᵖ + εI)⁻¹           M̂ (rows, n'): weight and bias side by side

#include "optim/adaact_full.h"

#include "optim/adaact_internals.h"
#include "optim/param_state.h"
#include "optim/row_moments.h"

namespace adaact {
namespace {

/// By eigenvectors, in float64 and with eigenvalues clamped at 0: rounding makes those of dead and
/// duplicate inputs slightly negative.
torch::Tensor inverse_power(const torch::Tensor& a_hat, const AdaActOptions& options) {
  const auto [eigenvalues, q] = at::linalg_eigh(a_hat.to(torch::kFloat64));
  const auto scale =
      (eigenvalues.clamp_min(0.0) + options.damping()).pow(options.power()) + options.eps();
  return (q / scale.unsqueeze(-2)).matmul(q.transpose(-2, -1)).to(a_hat.scalar_type());
}

void apply(const torch::Tensor& theta, const torch::Tensor& g_hat, const AdaActOptions& options) {
  theta.mul_(1.0 - options.lr() * options.weight_decay()).sub_(g_hat, options.lr());  // θ_t
}

}  // namespace

void refresh_preconditioner(AdaActParamState& state, const AdaActOptions& options) {
  const auto& moments = state.moments();
  const bool due = moments.segments.front().observations % options.refresh_period() ==
                   1 % options.refresh_period();
  const bool fits =
      state.preconditioner().defined() && state.preconditioner().sizes() == moments.ema.sizes();
  if (due || !fits) {
    state.preconditioner(inverse_power(unbiased(moments, std::get<1>(options.betas())), options));
  }
}

bool AdaAct::has_full_covariance(std::size_t weight) const {
  const auto* state = find_state(internals_->parameter(weight).tensor);
  return state != nullptr && state->preconditioner().defined();
}

void AdaAct::update_with_full_covariance(std::size_t weight_index) {
  const auto& self = *internals_;
  const auto& weight = self.parameter(weight_index).tensor;
  const auto& options = options_of(param_groups_[self.group_of[weight_index]]);
  auto& state = state_of(weight);
  const auto beta1 = std::get<0>(options.betas());
  auto w = begin_update(weight, state, weight.size(0));
  w.m.mul_(beta1).add_(w.g.to(w.m.dtype()), 1.0 - beta1);   // M_t
  auto m_hat = w.m / bias_correction(beta1, state.step());  // M̂_t (rows, n)

  const auto preconditioner = following(state.preconditioner(), weight);
  const bool joint = preconditioner.size(-1) == m_hat.size(1) + 1;
  const auto bias_index = self.joint_biases[weight_index];
  const torch::Tensor bias = joint ? self.parameter(bias_index).tensor : torch::Tensor();
  const bool bias_moves = joint && bias.grad().defined();
  if (joint) {
    auto column = torch::zeros({m_hat.size(0), 1}, m_hat.options());  // a frozen bias stays
    if (bias_moves) {
      auto& bias_state = state_of(bias);
      const auto b = begin_update(bias, bias_state, bias.numel());
      b.m.mul_(beta1).add_(b.g.to(b.m.dtype()), 1.0 - beta1);
      column = b.m / bias_correction(beta1, bias_state.step());
    }
    m_hat = torch::cat({m_hat, column}, 1);  // M̂_t (rows, n + 1)
  }

  // Rows outside every segment have never had an input and so have no gradient: Ĝ = M̂ = 0 there.
  auto g_hat = m_hat.clone();
  const auto& segments = state.moments().segments;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const auto rows = segments[s].end - segments[s].begin;
    g_hat.narrow(0, segments[s].begin, rows)
        .copy_(m_hat.narrow(0, segments[s].begin, rows)
                   .matmul(preconditioner[static_cast<std::int64_t>(s)]));  // Ĝ_t
  }
  apply(w.theta.matrix(), g_hat.narrow(1, 0, w.m.size(1)), options);
  w.theta.finish();
  if (bias_moves) {
    apply(bias.detach(), g_hat.select(1, g_hat.size(1) - 1),
          options_of(param_groups_[self.group_of[bias_index]]));
  }
}

}  // namespace adaact
