// Symbols of the paper and where they live, all of the parameter's shape:
//
//   g        gradient, scaled by the global clip
//   m, v     averages of g and g²                LambParamState::exp_avg, exp_avg_sq
//   u        (m/bc₁) / (√(v/bc₂) + ε) + λθ       lamb_update_reference
//   r        ‖θ‖/‖u‖, one number                 trust_ratio

#include <adaact/optim/lamb.h>

#include <utility>

#include "kernels/global_norm.h"
#include "kernels/global_norm_cuda.h"
#include "optim/base/param_state.h"
#include "optim/base/parameter_update.h"
#include "optim/base/state_codec.h"
#include "optim/base/step_parts.h"
#include "optim/lamb/lamb_update.h"
#include "optim/lamb/lamb_update_cuda.h"

namespace adaact {

template <>
struct OptionDescription<LambOptions> {
  static constexpr char kOptimizer[] = "Lamb";

  template <typename Options, typename Visitor>
  static void visit(Options& options, Visitor&& visit) {
    visit("lr", options.lr(), at_least(0.0));
    visit("betas", options.betas(), from_up_to(0.0, 1.0));
    visit("eps", options.eps(), divisor());
    visit("weight_decay", options.weight_decay(), at_least(0.0));
    visit("max_grad_norm", options.max_grad_norm(), above(0.0).or_infinity());
    visit("trust_clip", options.trust_clip(), AnyBool());
    visit("always_adapt", options.always_adapt(), AnyBool());
    visit("non_finite_policy", options.non_finite_policy(), non_finite_policy_names());
  }
};

template <>
struct StateDescription<LambParamState> {
  template <typename State, typename Visitor>
  static void visit(State& state, Visitor&& visit) {
    visit("step", state.step());
    visit("exp_avg", state.exp_avg());
    visit("exp_avg_sq", state.exp_avg_sq(), second_moments());
  }
};

LambOptions::LambOptions(double lr) : lr_(lr) {}

template struct JsonOptions<LambOptions>;

Lamb::Lamb(LayerMap model, const LambOptions& defaults) : Lamb(std::move(model), {}, defaults) {}

Lamb::Lamb(LayerMap model, std::vector<torch::optim::OptimizerParamGroup> param_groups,
           const LambOptions& defaults)
    : NamedOptimizer(std::move(model), std::make_unique<LambOptions>(defaults),
                     SimpleCodec<LambOptions, LambParamState>::instance()) {
  add_param_groups(std::move(param_groups));
}

LambNumbers Lamb::numbers_of(std::size_t index, std::int64_t updates) const {
  const auto& options = static_cast<const LambOptions&>(group_options(index));
  const auto [beta1, beta2] = options.betas();
  const bool adapts = options.weight_decay() != 0.0 || options.always_adapt();
  return {options.lr(),
          beta1,
          beta2,
          options.eps(),
          options.weight_decay(),
          options.max_grad_norm(),
          adapts,
          options.trust_clip(),
          static_cast<std::int32_t>(group_of(index)),
          updates};
}

/// Updates all parameters in a few launches. Where the kernels do not know one, nothing has changed and false is
/// returned.
bool Lamb::apply_on_gpu(const std::vector<std::size_t>& indices) {
  const auto [step, counted] = step_parts().numbers();
  std::vector<LambParameter> updates;
  bool clips = false;
  for (const auto index : indices) {
    const auto& tensor = parameter(index).tensor;
    if (!tensor.is_cuda()) return false;
    const auto* known = find_param_state<LambParamState>(state_, tensor);
    const auto theta = tensor.detach();
    const LambParamState state = known ? *known : LambParamState();
    LambParameter update{
        numbers_of(index, state.step() - counted),
        {theta, laid_out_as(theta, tensor.grad(), tensor.scalar_type()),
         state_laid_out_as(theta, state.exp_avg()), state_laid_out_as(theta, state.exp_avg_sq())}};
    if (!can_update_cuda(update)) return false;
    clips = clips || std::isfinite(update.max_grad_norm);
    updates.push_back(std::move(update));
  }
  if (clips && !are_on_one_device(gradients(indices))) return false;
  lamb_update_cuda(updates, clips ? global_norm_cuda(gradients(indices)) : torch::Tensor(), step);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    auto& state = get_or_make_param_state<LambParamState>(state_, parameter(indices[i]).tensor);
    state.exp_avg(updates[i].tensors.m);
    state.exp_avg_sq(updates[i].tensors.v);
  }
  return true;
}

void Lamb::settle(std::int64_t steps) {
  count_steps<LambParamState>(state_, tensors(updated_), steps);
}

void Lamb::apply(const StepStatistics& /*statistics*/) {
  auto indices = trained();
  if (!indices.empty() && !apply_on_gpu(indices)) {
    step_parts().check_seen_by_host("parameters on one GPU");
    apply_plainly(indices);
  }
  updated_ = std::move(indices);
}

void Lamb::apply_plainly(const std::vector<std::size_t>& indices) {
  const auto norm = global_norm(gradients(indices));
  for (const auto index : indices) {
    const auto& tensor = parameter(index).tensor;
    auto& state = get_or_make_param_state<LambParamState>(state_, tensor);
    LambScalars step{numbers_of(index, state.step())};
    step.gradient_scale = 1.0 / std::max(1.0, norm / step.max_grad_norm);
    step.correction1 = bias_correction(step.beta1, step.updates + 1);
    step.correction2 = bias_correction(step.beta2, step.updates + 1);
    prepare_buffer(state.exp_avg(), tensor);
    prepare_buffer(state.exp_avg_sq(), tensor);
    MatrixView theta(tensor);
    const auto flat = [](const torch::Tensor& each) { return each.view({1, -1}); };
    const LambTensors tensors{theta.matrix(), flat(gradient_of(tensor)), flat(state.exp_avg()),
                              flat(state.exp_avg_sq())};
    (tensor.device().is_cpu() ? lamb_update_cpu : lamb_update_reference)(tensors, step);
    theta.finish();
  }
}

}  // namespace adaact
