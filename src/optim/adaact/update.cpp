#include "optim/adaact/update.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <tuple>
#include <utility>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "kernels/cpu_dispatch.h"
#include "kernels/grain.h"
#include "kernels/sum_dtype.h"
#include "optim/adaact/outsized.h"
#include "optim/adaact/row_averages.h"

namespace adaact {
namespace {

template <typename Scalar, typename State>
struct UpdateRow {
  /// scale[j] = η / (bc₁ · (V̂ⱼᵖ + ε))
  static ADAACT_LOOP_BODY void run(Scalar* theta, State* m, const Scalar* g, const State* scale,
                                   std::int64_t n, State beta1, State one_minus_beta1, State decay,
                                   unsigned* outsized) {
    unsigned any = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      m[j] = beta1 * m[j] + one_minus_beta1 * static_cast<State>(g[j]);  // M_t
      const State change = scale[j] * m[j];                              // η Ĝ_t
      const auto old = static_cast<State>(theta[j]);
      any |= static_cast<unsigned>(is_outsized(change, old));
      theta[j] = static_cast<Scalar>(decay * old - change);  // θ_t
    }
    *outsized |= any;
  }
};

template <typename Scalar, typename State>
bool update_rows(const torch::Tensor& theta, const torch::Tensor& m, const torch::Tensor& g,
                 const torch::Tensor& scale, const AdaActScalars& step) {
  const auto n = theta.size(1);
  const auto rows_per_input = theta.size(0) / scale.size(0);
  auto* theta_data = theta.data_ptr<Scalar>();
  auto* m_data = m.data_ptr<State>();
  const auto* g_data = g.data_ptr<Scalar>();
  const auto* scale_data = scale.data_ptr<State>();
  const auto beta1 = static_cast<State>(step.beta1);
  const auto one_minus_beta1 = static_cast<State>(1.0 - step.beta1);
  const auto decay = static_cast<State>(1.0 - step.lr * step.weight_decay);
  std::atomic<unsigned> outsized{0};
  at::parallel_for(0, theta.size(0), grain_for(n), [&](std::int64_t begin, std::int64_t end) {
    unsigned any = 0;
    for (auto row = begin; row < end; ++row) {
      run_vectorized<UpdateRow<Scalar, State>>(
          theta_data + row * n, m_data + row * n, g_data + row * n,
          scale_data + row / rows_per_input * n, n, beta1, one_minus_beta1, decay, &any);
    }
    if (any != 0) outsized = any;
  });
  return outsized != 0;
}

}  // namespace

MatrixUpdate matrices_of(const torch::Tensor& parameter, const AdaActParamState& state,
                         std::int64_t rows) {
  return {MatrixView(parameter, rows), state.exp_avg().view({rows, -1}),
          gradient_of(parameter).view({rows, -1})};
}

torch::Tensor adaact_denominator(const torch::Tensor& v_hat, double power, double eps) {
  return (power == 0.5 ? v_hat.sqrt() : v_hat.pow(power)).add_(eps);
}

void average_gradient(const torch::Tensor& m, const torch::Tensor& g, double beta1) {
  m.mul_(beta1).add_(g.to(m.dtype()), 1.0 - beta1);  // M_t
}

bool adaact_update_anywhere(const torch::Tensor& theta, const torch::Tensor& m,
                            const torch::Tensor& g, const torch::Tensor& denominator,
                            const AdaActScalars& step) {
  average_gradient(m, g, step.beta1);            // M_t
  const auto m_hat = m / step.bias_correction1;  // M̂_t
  const auto rows_per_input = theta.size(0) / denominator.size(0);
  const auto g_hat = m_hat / denominator.repeat_interleave(rows_per_input, 0);  // Ĝ_t
  const auto old = theta.to(m.dtype());
  const auto change = step.lr * g_hat;
  const bool outsized = theta.device().is_cpu() &&  // a GPU is not waited for
                        (change.abs() > kOutsized * (1.0 + old.abs())).any().item<bool>();
  theta.copy_(old * (1.0 - step.lr * step.weight_decay) - change);  // θ_t
  return outsized;
}

bool adaact_update_cpu(const torch::Tensor& theta, const torch::Tensor& m, const torch::Tensor& g,
                       const torch::Tensor& denominator, const AdaActScalars& step) {
  TORCH_CHECK(m.sizes() == theta.sizes() && g.sizes() == theta.sizes() &&
                  denominator.size(1) == theta.size(1) && denominator.size(0) > 0 &&
                  theta.size(0) % denominator.size(0) == 0,
              "AdaAct: θ ", theta.sizes(), ", M ", m.sizes(), ", G ", g.sizes(), " and V̂ ",
              denominator.sizes(), " do not go together");
  const auto scale = (step.lr / step.bias_correction1) / denominator;
  bool outsized = false;
  AT_DISPATCH_FLOATING_TYPES_AND2(
      torch::kHalf, torch::kBFloat16, theta.scalar_type(), "adaact_update_cpu",
      [&] { outsized = update_rows<scalar_t, SumOf<scalar_t>>(theta, m, g, scale, step); });
  return outsized;
}

bool adaact_update(const torch::Tensor& theta, const torch::Tensor& m, const torch::Tensor& g,
                   const torch::Tensor& denominator, const AdaActScalars& step) {
  const bool fast = theta.device().is_cpu() && theta.is_contiguous() && m.is_contiguous() &&
                    g.is_contiguous() && denominator.is_contiguous() && theta.is_floating_point();
  return (fast ? adaact_update_cpu : adaact_update_anywhere)(theta, m, g, denominator, step);
}

void plain_gradient_update(const std::vector<torch::Tensor>& theta,
                           const std::vector<torch::Tensor>& g, const AdaActScalars& step) {
  at::_foreach_mul_(theta, 1.0 - step.lr * step.weight_decay);
  at::_foreach_add_(theta, g, -step.lr);
}

namespace {

AdaActScalars scalars_of(const AdaActOptions& options, std::int64_t updates_of_m) {
  const auto beta1 = std::get<0>(options.betas());
  return {options.lr(), beta1, options.weight_decay(), bias_correction(beta1, updates_of_m)};
}

/// The denominator of an input that is always 1, like a bias's.
torch::Tensor constant_denominator(std::int64_t columns, const AdaActOptions& options,
                                   const torch::Tensor& m) {
  const auto [clip_low, clip_high] = options.clip_range();
  const auto v_hat = torch::full({1, columns}, std::clamp(1.0, clip_low, clip_high), m.options());
  return adaact_denominator(v_hat, options.power(), options.eps());
}

/// Updates each segment with its own denominator. Rows outside every segment follow the plan's rule for gaps, but
/// their M moves with the others'.
bool update_observed_rows(const torch::Tensor& theta, const torch::Tensor& m,
                          const torch::Tensor& g, const PlannedUpdate& planned,
                          const AdaActScalars& step) {
  const auto& options = *planned.of.options;
  const auto& moments = planned.state->moments();
  const auto& segments = moments.segments;
  const auto beta2 = std::get<1>(options.betas());
  const auto denominator =
      adaact_denominator(unbiased(moments, beta2).flatten(1), options.power(), options.eps());
  if (cover_all_rows_evenly(segments, theta.size(0))) {
    return adaact_update(theta, m, g, denominator, step);
  }
  bool outsized = false;
  std::int64_t row = 0;
  const auto update_gap = [&](std::int64_t end) {
    if (row == end) return;
    const auto rows = end - row;
    const auto theta_rows = theta.narrow(0, row, rows);
    const auto g_rows = g.narrow(0, row, rows);
    if (planned.rule_of_gaps == Rule::PlainGradient) {
      average_gradient(m.narrow(0, row, rows), g_rows, step.beta1);
      plain_gradient_update({theta_rows}, {g_rows}, step);
    } else {
      outsized |= adaact_update(theta_rows, m.narrow(0, row, rows), g_rows,
                                constant_denominator(denominator.size(1), options, m), step);
    }
  };
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const auto& segment = segments[s];
    update_gap(segment.begin);
    const auto rows = segment.end - segment.begin;
    outsized |= adaact_update(theta.narrow(0, segment.begin, rows),
                              m.narrow(0, segment.begin, rows), g.narrow(0, segment.begin, rows),
                              denominator.narrow(0, static_cast<std::int64_t>(s), 1), step);
    row = segment.end;
  }
  update_gap(theta.size(0));
  return outsized;
}

/// V_t of the layers that were observed: all new values first, then all changes, so that what fails leaves
/// every layer as it was.
void move_second_moments(const std::vector<PlannedUpdate>& plan) {
  std::vector<std::pair<AdaActParamState*, RowMoments>> moved;
  for (const auto& planned : plan) {
    if (!planned.moves_v()) continue;
    const auto& options = *planned.of.options;
    auto moments = planned.state->moments();
    if (moments.ema.defined()) moments.ema = moments.ema.clone();
    const auto [clip_low, clip_high] = options.clip_range();
    update_row_moments(moments, planned.seen, std::get<1>(options.betas()), clip_low, clip_high);
    moved.emplace_back(planned.state, std::move(moments));
  }
  for (auto& [state, moments] : moved) state->moments(std::move(moments));
}

/// Returns whether the parameter was changed out of proportion.
bool update_parameter(const PlannedUpdate& planned) {
  const auto& options = *planned.of.options;
  auto& state = *planned.state;
  const bool is_scaled = planned.rule == Rule::ScaledByInput;
  prepare_buffer(state.exp_avg(), planned.theta);
  auto [theta, m, g] = matrices_of(planned.theta, state, is_scaled ? planned.theta.size(0) : 1);
  const auto step = scalars_of(options, state.step() + 1);
  bool outsized = false;
  if (is_scaled) {
    auto& v = state.moments().ema;
    v = following(v, planned.theta);
    outsized = update_observed_rows(theta.matrix(), m, g, planned, step);
  } else {
    outsized =
        adaact_update(theta.matrix(), m, g, constant_denominator(g.size(1), options, m), step);
  }
  theta.finish();
  return outsized;
}

/// Updates all parameters of a group at once: on a GPU in a launch for all instead of one for each.
void update_by_plain_gradient(const std::vector<PlannedUpdate>& plan) {
  struct Group {
    std::vector<torch::Tensor> theta;
    std::vector<torch::Tensor> g;
    AdaActScalars step;
  };
  std::map<std::int64_t, Group> groups;
  for (const auto& planned : plan) {
    if (planned.rule != Rule::PlainGradient) continue;
    auto& group = groups[planned.of.group];
    group.theta.push_back(planned.theta.detach());
    group.g.push_back(planned.theta.grad());
    group.step = scalars_of(*planned.of.options, 1);
  }
  for (const auto& [number, group] : groups)
    plain_gradient_update(group.theta, group.g, group.step);
}

}  // namespace

std::optional<std::size_t> apply_plainly(const std::vector<PlannedUpdate>& plan) {
  move_second_moments(plan);
  std::optional<std::size_t> outsized;
  for (const auto& planned : plan) {
    const bool alone = planned.rule == Rule::ScaledByInput || planned.rule == Rule::ConstantInput;
    if (alone && update_parameter(planned)) outsized = planned.of.index;
  }
  update_by_plain_gradient(plan);
  return outsized;
}

}  // namespace adaact
