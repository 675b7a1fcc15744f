// Symbols of the paper and where they live, all of the parameter's shape:
//
//   g        gradient, scaled by the global clip
//   m, v     averages of g and g²                LambParamState::exp_avg, exp_avg_sq
//   u        (m/bc₁) / (√(v/bc₂) + ε) + λθ       lamb_update_reference
//   r        ‖θ‖/‖u‖, one number                 trust_ratio

#include <adaact/optim/lamb.h>

#include <utility>

#include "optim/base/param_state.h"
#include "optim/base/parameter_update.h"
#include "optim/base/state_codec.h"
#include "optim/device/global_norm_cuda.h"
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
    visit("eps", options.eps(), above(0.0));
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
    visit("exp_avg_sq", state.exp_avg_sq());
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

#ifdef ADAACT_WITH_CUDA

/// All parameters in a few launches on a GPU; false where the kernels do not know one of them.
bool Lamb::update_fused(const DeviceStep* step, std::int64_t counted) {
  const auto indices = trained();
  std::vector<LambParameter> updates;
  bool clips = false;
  for (const auto index : indices) {
    const auto& tensor = parameter(index).tensor;
    const auto& options = static_cast<const LambOptions&>(group_options(index));
    const auto* known = find_param_state<LambParamState>(state_, tensor);
    const auto theta = tensor.detach();
    const LambParamState state = known ? *known : LambParamState();
    LambParameter update;
    update.tensors = {theta, laid_out_as(theta, tensor.grad(), tensor.scalar_type()),
                      state_laid_out_as(theta, state.exp_avg()),
                      state_laid_out_as(theta, state.exp_avg_sq())};
    update.lr = options.lr();
    update.group = group_of(index);
    std::tie(update.beta1, update.beta2) = options.betas();
    update.eps = options.eps();
    update.weight_decay = options.weight_decay();
    update.adapts = options.weight_decay() != 0.0 || options.always_adapt();
    update.trust_clip = options.trust_clip();
    update.max_grad_norm = options.max_grad_norm();
    update.updates = state.step() - counted;
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

void Lamb::count_fused_steps(const std::vector<std::size_t>& parameters, std::int64_t steps) {
  for (const auto index : parameters) {
    auto& state = get_or_make_param_state<LambParamState>(state_, parameter(index).tensor);
    state.step(state.step() + steps);
  }
}

#endif

void Lamb::update() {
  const auto indices = trained();
  const auto norm = global_norm(gradients(indices));
  for (const auto index : indices) {
    const auto& tensor = parameter(index).tensor;
    const auto& options = static_cast<const LambOptions&>(group_options(index));
    auto& state = get_or_make_param_state<LambParamState>(state_, tensor);
    const auto [beta1, beta2] = options.betas();
    state.step(state.step() + 1);
    LambScalars step{options.lr(), beta1, beta2, options.eps(), options.weight_decay()};
    step.adapts = options.weight_decay() != 0.0 || options.always_adapt();
    step.trust_clip = options.trust_clip();
    step.gradient_scale = 1.0 / std::max(1.0, norm / options.max_grad_norm());
    step.correction1 = bias_correction(beta1, state.step());
    step.correction2 = bias_correction(beta2, state.step());
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
