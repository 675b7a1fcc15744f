// Symbols of the paper and where they live, all of the parameter's shape:
//
//   g        gradient, scaled by the global clip
//   Δ        g minus the gradient before, 0 at t = 1    AdanParamState::previous_grad
//   m        average of g                               AdanParamState::exp_avg
//   v        average of Δ                               AdanParamState::exp_avg_diff
//   n        average of (g + β₂Δ)²                      AdanParamState::exp_avg_sq
//   u        (m/bc₁ + β₂ v/bc₂) / (√(n/bc₃) + ε)        adan_update_reference

#include <adaact/optim/adan.h>

#include <algorithm>
#include <utility>

#include "kernels/global_norm.h"
#include "kernels/global_norm_cuda.h"
#include "optim/adan/adan_update.h"
#include "optim/adan/adan_update_cuda.h"
#include "optim/base/param_state.h"
#include "optim/base/parameter_update.h"
#include "optim/base/state_codec.h"
#include "optim/base/step_parts.h"

namespace adaact {

template <>
struct OptionDescription<AdanOptions> {
  static constexpr char kOptimizer[] = "Adan";

  template <typename Options, typename Visitor>
  static void visit(Options& options, Visitor&& visit) {
    visit("lr", options.lr(), at_least(0.0));
    visit("betas", options.betas(), from_up_to(0.0, 1.0));
    visit("eps", options.eps(), divisor());
    visit("weight_decay", options.weight_decay(), at_least(0.0));
    visit("proximal", options.proximal(), AnyBool());
    visit("max_grad_norm", options.max_grad_norm(), above(0.0).or_infinity());
    visit("non_finite_policy", options.non_finite_policy(), non_finite_policy_names());
  }
};

template <>
struct StateDescription<AdanParamState> {
  template <typename State, typename Visitor>
  static void visit(State& state, Visitor&& visit) {
    visit("step", state.step());
    visit("exp_avg", state.exp_avg());
    visit("exp_avg_diff", state.exp_avg_diff());
    visit("exp_avg_sq", state.exp_avg_sq(), second_moments());
    visit("previous_grad", state.previous_grad());
  }
};

AdanOptions::AdanOptions(double lr) : lr_(lr) {}

template struct JsonOptions<AdanOptions>;

Adan::Adan(LayerMap model, const AdanOptions& defaults) : Adan(std::move(model), {}, defaults) {}

Adan::Adan(LayerMap model, std::vector<torch::optim::OptimizerParamGroup> param_groups,
           const AdanOptions& defaults)
    : NamedOptimizer(std::move(model), std::make_unique<AdanOptions>(defaults),
                     SimpleCodec<AdanOptions, AdanParamState>::instance()) {
  add_param_groups(std::move(param_groups));
}

const AdanOptions& Adan::options_of(std::size_t index) const {
  return static_cast<const AdanOptions&>(group_options(index));
}

AdanNumbers Adan::numbers_of(std::size_t index, std::int64_t updates) const {
  const auto& options = options_of(index);
  const auto [beta1, beta2, beta3] = options.betas();
  return {options.lr(),
          beta1,
          beta2,
          beta3,
          options.eps(),
          options.weight_decay(),
          options.max_grad_norm(),
          options.proximal(),
          static_cast<std::int32_t>(group_of(index)),
          updates};
}

/// Updates all parameters in a few launches. Where the kernels do not know one, nothing has changed and false is
/// returned.
bool Adan::apply_on_gpu(const std::vector<std::size_t>& indices) {
  const auto [step, counted] = step_parts().numbers();
  std::vector<AdanParameter> updates;
  bool clips = false;
  for (const auto index : indices) {
    const auto& tensor = parameter(index).tensor;
    if (!tensor.is_cuda()) return false;
    const auto* known = find_param_state<AdanParamState>(state_, tensor);
    const auto theta = tensor.detach();
    const AdanParamState state = known ? *known : AdanParamState();
    AdanParameter update{
        numbers_of(index, state.step() - counted),
        {theta, laid_out_as(theta, tensor.grad(), tensor.scalar_type()),
         state_laid_out_as(theta, state.exp_avg()), state_laid_out_as(theta, state.exp_avg_diff()),
         state_laid_out_as(theta, state.exp_avg_sq()),
         state_laid_out_as(theta, state.previous_grad())}};
    if (!can_update_cuda(update)) return false;
    clips = clips || std::isfinite(update.max_grad_norm);
    updates.push_back(std::move(update));
  }
  if (clips && !are_on_one_device(gradients(indices))) return false;
  adan_update_cuda(updates, clips ? global_norm_cuda(gradients(indices)) : torch::Tensor(), step);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    auto& state = get_or_make_param_state<AdanParamState>(state_, parameter(indices[i]).tensor);
    const auto& tensors = updates[i].tensors;
    state.exp_avg(tensors.m);
    state.exp_avg_diff(tensors.v);
    state.exp_avg_sq(tensors.n);
    state.previous_grad(tensors.previous);
  }
  return true;
}

void Adan::settle(std::int64_t steps) {
  count_steps<AdanParamState>(state_, tensors(updated_), steps);
}

void Adan::apply(const StepStatistics& /*statistics*/) {
  auto indices = trained();
  if (!indices.empty() && !apply_on_gpu(indices)) {
    step_parts().check_seen_by_host("parameters on one GPU");
    apply_plainly(indices);
  }
  updated_ = std::move(indices);
}

void Adan::apply_plainly(const std::vector<std::size_t>& indices) {
  const bool clips = std::any_of(indices.begin(), indices.end(), [this](std::size_t index) {
    return std::isfinite(options_of(index).max_grad_norm());
  });
  const auto norm = clips ? global_norm(gradients(indices)) : 0.0;
  for (const auto index : indices) {
    const auto& tensor = parameter(index).tensor;
    auto& state = get_or_make_param_state<AdanParamState>(state_, tensor);
    AdanScalars step{numbers_of(index, state.step())};
    const auto t = step.updates + 1;
    step.correction1 = bias_correction(step.beta1, t);
    step.correction2 = bias_correction(step.beta2, t);
    step.correction3 = bias_correction(step.beta3, t);
    step.gradient_scale = std::min(1.0, step.max_grad_norm / (norm + step.eps));
    for (auto* buffer :
         {&state.exp_avg(), &state.exp_avg_diff(), &state.exp_avg_sq(), &state.previous_grad()}) {
      prepare_buffer(*buffer, tensor);
    }
    const auto g = gradient_of(tensor);
    if (t == 1) state.previous_grad().copy_(g).mul_(step.gradient_scale);  // Δ = 0
    MatrixView theta(tensor);
    const auto flat = [](const torch::Tensor& each) { return each.view({1, -1}); };
    const AdanTensors tensors{theta.matrix(),           flat(g),
                              flat(state.exp_avg()),    flat(state.exp_avg_diff()),
                              flat(state.exp_avg_sq()), flat(state.previous_grad())};
    (tensor.device().is_cpu() ? adan_update_cpu : adan_update_reference)(tensors, step);
    theta.finish();
  }
}

}  // namespace adaact
