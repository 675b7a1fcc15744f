// AdaAct with the full covariance of a layer's input in place of its diagonal:
//
//   A_t = β₂ A_{t−1} + (1−β₂) E[ã ãᵀ]        (S, n', n'), n' = n + 1 with a bias
//   Ĝ_t = M̂_t ((Â_t + δI)ᵖ + εI)⁻¹           M̂ (rows, n'): weight and bias side by side

#include "optim/adaact/full_covariance.h"

#include <algorithm>

#include "optim/adaact/adaact_internals.h"
#include "optim/adaact/row_moments.h"
#include "optim/base/param_state.h"
#include "optim/base/symmetric_eigen.h"

namespace adaact {
namespace {

torch::Tensor inverse_power(const torch::Tensor& a_hat, const AdaActOptions& options) {
  const auto [values, q] = symmetric_eigen(a_hat);
  const auto scale = (values + options.damping()).pow(options.power()) + options.eps();
  return rebuilt(q, scale.reciprocal()).to(a_hat.scalar_type());
}

/// What changes from step to step, by column of (parameters, 3) float64.
enum Scalar : std::int64_t {
  kCorrection,  // 1 − β₁ᵗ
  kRate,        // η
  kDecay,       // 1 − ηλ
  kScalars
};

/// To where a recorded update finds them. A GPU that still reads those of the step before is not waited
/// for.
void send(const std::vector<double>& scalars, torch::Tensor& there, torch::Device device) {
  const auto here = torch::tensor(scalars, torch::kFloat64).view({-1, kScalars});
  if (!there.defined() || there.sizes() != here.sizes() || there.device() != device) {
    there = here.to(device, torch::kFloat64, /*non_blocking=*/false, /*copy=*/true);
  } else {
    there.copy_(device.is_cuda() ? here.pin_memory() : here, /*non_blocking=*/true);
  }
}

/// Moves M and returns M̂.
torch::Tensor averaged_gradient(const MatrixUpdate& update, const AdaActOptions& options,
                                const torch::Tensor& scalars) {
  const auto beta1 = std::get<0>(options.betas());
  update.m.mul_(beta1).add_(update.g.to(update.m.dtype()), 1.0 - beta1);  // M_t
  return update.m / scalars[kCorrection].to(update.m.options());
}

void apply(const torch::Tensor& theta, const torch::Tensor& g_hat, const torch::Tensor& scalars) {
  const auto of_step = scalars.to(g_hat.options());
  const auto updated = theta.to(g_hat.scalar_type());  // in bfloat16 1 − ηλ would be far off
  updated.mul_(of_step[kDecay]).addcmul_(g_hat, of_step[kRate], -1.0);  // θ_t
  if (!updated.is_same(theta)) theta.copy_(updated);
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

void AdaAct::update_with_full_covariance(const std::vector<FullWeight>& weights) {
  std::vector<double> scalars;
  std::vector<const void*> memory;
  std::vector<AdaActParamState*> updated;
  const auto prepare = [&](std::size_t index) {
    const auto& tensor = parameter(index).tensor;
    const auto& options = options_of(index);
    auto& state = state_of(index);
    prepare_buffer(state.exp_avg(), tensor);
    updated.push_back(&state);
    scalars.push_back(bias_correction(std::get<0>(options.betas()), state.step() + 1));
    scalars.push_back(options.lr());
    scalars.push_back(1.0 - options.lr() * options.weight_decay());
    for (const auto& used : {tensor, tensor.grad(), state.exp_avg(), state.preconditioner()}) {
      memory.push_back(memory_of(used));
    }
  };
  for (const auto& each : weights) {
    auto& preconditioner = state_of(each.weight).preconditioner();
    preconditioner = following(preconditioner, parameter(each.weight).tensor);
    prepare(each.weight);
    if (each.bias != LayerMap::kNotFound) prepare(each.bias);
  }
  auto& on_device = internals_->scalars_of_full;
  send(scalars, on_device, parameter(weights[0].weight).tensor.device());
  memory.push_back(memory_of(on_device));

  const auto work = [this, weights, rows = on_device] {
    std::int64_t row = 0;
    for (const auto& each : weights) {
      const auto of_weight = rows[row++];
      update_matrix(each, of_weight, each.bias == LayerMap::kNotFound ? of_weight : rows[row++]);
    }
  };
  run_update(work, memory);
  for (auto* state : updated) state->step(state->step() + 1);
}

void AdaAct::update_matrix(const FullWeight& each, const torch::Tensor& scalars_of_weight,
                           const torch::Tensor& scalars_of_bias) const {
  const auto& weight = parameter(each.weight).tensor;
  const auto& options = options_of(each.weight);
  const auto& state = *find_state(each.weight);
  auto w = matrices_of(weight, state, weight.size(0));
  auto m_hat = averaged_gradient(w, options, scalars_of_weight);  // M̂_t (rows, n)
  auto g = w.g.to(m_hat.dtype());

  const bool with_bias = each.bias != LayerMap::kNotFound;
  if (state.preconditioner().size(-1) > m_hat.size(1)) {
    auto m_column = torch::zeros({m_hat.size(0), 1}, m_hat.options());  // of a bias that stays
    auto g_column = m_column;
    if (with_bias) {
      const auto& bias = parameter(each.bias).tensor;
      const auto b = matrices_of(bias, *find_state(each.bias), bias.numel());
      m_column = averaged_gradient(b, options_of(each.bias), scalars_of_bias);
      g_column = b.g.to(m_hat.dtype());
    }
    m_hat = torch::cat({m_hat, m_column}, 1);  // M̂_t (rows, n + 1)
    g = torch::cat({g, g_column}, 1);
  }

  // Rows that belong to no segment follow the rule for unobserved parameters.
  auto g_hat = (options.unobserved_rule() == UnobservedRule::PlainGradient ? g : m_hat).clone();
  const auto& segments = state.moments().segments;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const auto rows = segments[s].end - segments[s].begin;
    const auto m_rows = m_hat.narrow(0, segments[s].begin, rows);
    g_hat.narrow(0, segments[s].begin, rows)
        .copy_(m_rows.matmul(state.preconditioner()[static_cast<std::int64_t>(s)]));  // Ĝ_t
  }
  apply(w.theta.matrix(), g_hat.narrow(1, 0, w.m.size(1)), scalars_of_weight);
  w.theta.finish();
  if (with_bias) {
    apply(parameter(each.bias).tensor.detach(), g_hat.select(1, g_hat.size(1) - 1),
          scalars_of_bias);
  }
}

}  // namespace adaact
