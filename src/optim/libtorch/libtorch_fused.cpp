#include "optim/libtorch/libtorch_fused.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <torch/torch.h>
#include <torch/version.h>

#include "optim/base/param_state.h"
#include "optim/base/parameter_update.h"
#include "optim/device/device_step.h"

// Fused SGD came with LibTorch 2.3.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
#define ADAACT_HAS_FUSED_OPERATORS
#endif

namespace adaact {
namespace {

#ifdef ADAACT_HAS_FUSED_OPERATORS

using Tensors = std::vector<torch::Tensor>;

/// The operators see memory alone: one type, one device, dense.
bool can_be_fused(const Tensors& parameters) {
  return !parameters.empty() &&
         std::all_of(parameters.begin(), parameters.end(), [&](const torch::Tensor& parameter) {
           return parameter.is_cuda() && parameter.is_floating_point() &&
                  parameter.device() == parameters[0].device() &&
                  parameter.scalar_type() == parameters[0].scalar_type() &&
                  parameter.is_non_overlapping_and_dense() &&
                  parameter.grad().layout() == torch::kStrided;
         });
}

/// What the operators read of a step on the device.
struct StepTensors {
  explicit StepTensors(const DeviceStep* step) {
    if (step == nullptr) return;
    rates = step->lr.to(torch::kFloat32);
    found_inf = step->bad.to(torch::kFloat32);
  }
  torch::Tensor rates;                     // per group; undefined: as the options say
  std::optional<torch::Tensor> found_inf;  // 1 where this step is not finite
};

/// The learning rate as the operators would read it from the device.
double rate_for(const Tensors& parameters, double rate) {
  return parameters[0].scalar_type() == torch::kDouble ? rate : static_cast<float>(rate);
}

Tensors detached(const Tensors& parameters) {
  Tensors list;
  for (const auto& parameter : parameters) list.push_back(parameter.detach());
  return list;
}

Tensors gradients_of(const Tensors& parameters) {
  Tensors list;
  for (const auto& parameter : parameters) {
    list.push_back(laid_out_as(parameter, parameter.grad(), parameter.scalar_type()));
  }
  return list;
}

/// State in the parameter's type, as in LibTorch's own loops.
torch::Tensor buffer_of(const torch::Tensor& parameter, const torch::Tensor& known) {
  return state_laid_out_as(parameter, known, parameter.scalar_type());
}

template <typename Group>
Tensors trained_of(const Group& group) {
  Tensors parameters;
  for (const auto& parameter : group.params()) {
    if (parameter.grad().defined()) parameters.push_back(parameter);
  }
  return parameters;
}

template <typename... Arguments>
void apply_fused(const torch::optim::AdamOptions& /*options*/, Arguments&&... arguments) {
  at::_fused_adam_(std::forward<Arguments>(arguments)...);
}
template <typename... Arguments>
void apply_fused(const torch::optim::AdamWOptions& /*options*/, Arguments&&... arguments) {
  at::_fused_adamw_(std::forward<Arguments>(arguments)...);
}

template <typename State, typename Options, typename Optimizer>
bool adam_like_step(Optimizer& optimizer, const StepParts::Numbers& numbers) {
  if (!can_be_fused(trained_parameters(optimizer))) return false;
  auto& states = optimizer.state();
  for (const auto& group : optimizer.param_groups()) {
    const auto parameters = trained_of(group);
    for (const auto& parameter : parameters) {
      const auto* first = find_param_state<State>(states, parameters[0]);
      const auto* known = find_param_state<State>(states, parameter);
      if ((first ? first->step() : 0) != (known ? known->step() : 0)) return false;
    }
  }
  const StepTensors view(numbers.step);
  for (std::size_t g = 0; g < optimizer.param_groups().size(); ++g) {
    const auto& group = optimizer.param_groups()[g];
    const auto& options = static_cast<const Options&>(group.options());
    const auto parameters = trained_of(group);
    if (parameters.empty()) continue;
    Tensors averages;
    Tensors squares;
    Tensors largest;
    std::int64_t steps = 0;
    for (const auto& parameter : parameters) {
      auto& state = get_or_make_param_state<State>(states, parameter);
      state.exp_avg(buffer_of(parameter, state.exp_avg()));
      state.exp_avg_sq(buffer_of(parameter, state.exp_avg_sq()));
      averages.push_back(state.exp_avg());
      squares.push_back(state.exp_avg_sq());
      if (options.amsgrad()) {
        state.max_exp_avg_sq(buffer_of(parameter, state.max_exp_avg_sq()));
        largest.push_back(state.max_exp_avg_sq());
      }
      steps = state.step();
    }
    const auto next = static_cast<double>(steps - numbers.counted + 1);
    const auto on_device = parameters[0].options().dtype(torch::kFloat32).requires_grad(false);
    const auto count = numbers.step == nullptr
                           ? torch::full({}, next, on_device)
                           : numbers.step->accepted.to(torch::kFloat32).add_(next).squeeze();
    const Tensors counts(parameters.size(), count);
    const auto update = [&](const auto& rate) {
      const auto [beta1, beta2] = options.betas();
      apply_fused(options, detached(parameters), gradients_of(parameters), averages, squares,
                  largest, counts, rate, beta1, beta2, options.weight_decay(), options.eps(),
                  options.amsgrad(), /*maximize=*/false, /*grad_scale=*/std::nullopt,
                  view.found_inf);
    };
    numbers.step == nullptr ? update(rate_for(parameters, options.lr()))
                            : update(view.rates[static_cast<std::int64_t>(g)]);
  }
  return true;
}

#endif

}  // namespace

std::vector<torch::Tensor> trained_parameters(const torch::optim::Optimizer& optimizer) {
  std::vector<torch::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      if (parameter.grad().defined()) parameters.push_back(parameter);
    }
  }
  return parameters;
}

#ifdef ADAACT_HAS_FUSED_OPERATORS

bool has_fused_operators() { return true; }

bool fused_step(torch::optim::SGD& optimizer, const StepParts::Numbers& numbers) {
  using State = torch::optim::SGDParamState;
  if (!can_be_fused(trained_parameters(optimizer))) return false;
  auto& states = optimizer.state();
  const auto has_buffer = [&](const torch::Tensor& parameter) {
    const auto* known = find_param_state<State>(states, parameter);
    return known != nullptr && known->momentum_buffer().defined();
  };
  for (const auto& group : optimizer.param_groups()) {
    const auto parameters = trained_of(group);
    const auto with_buffer = std::count_if(parameters.begin(), parameters.end(), has_buffer);
    const bool same = with_buffer == 0 || with_buffer == static_cast<long>(parameters.size());
    if (!same || (numbers.step != nullptr && with_buffer == 0)) {
      const auto momentum =
          static_cast<const torch::optim::SGDOptions&>(group.options()).momentum();
      if (momentum != 0.0) return false;
    }
  }
  const StepTensors view(numbers.step);
  for (std::size_t g = 0; g < optimizer.param_groups().size(); ++g) {
    const auto& group = optimizer.param_groups()[g];
    const auto& options = static_cast<const torch::optim::SGDOptions&>(group.options());
    const auto parameters = trained_of(group);
    if (parameters.empty()) continue;
    const bool first_step = options.momentum() != 0.0 && !has_buffer(parameters[0]);
    Tensors buffers;
    if (options.momentum() != 0.0) {
      for (const auto& parameter : parameters) {
        auto& state = get_or_make_param_state<State>(states, parameter);
        state.momentum_buffer(buffer_of(parameter, state.momentum_buffer()));
        buffers.push_back(state.momentum_buffer());
      }
    }
    const auto theta = detached(parameters);
    const auto gradients = gradients_of(parameters);
    if (numbers.step == nullptr) {
      at::_fused_sgd_(theta, gradients, buffers, options.weight_decay(), options.momentum(),
                      rate_for(parameters, options.lr()), options.dampening(), options.nesterov(),
                      /*maximize=*/false, first_step);
    } else {
      at::_fused_sgd_(theta, gradients, buffers, options.weight_decay(), options.momentum(),
                      view.rates[static_cast<std::int64_t>(g)], options.dampening(),
                      options.nesterov(), /*maximize=*/false, /*is_first_step=*/false,
                      /*grad_scale=*/std::nullopt, view.found_inf);
    }
  }
  return true;
}

bool fused_step(torch::optim::Adam& optimizer, const StepParts::Numbers& numbers) {
  return adam_like_step<torch::optim::AdamParamState, torch::optim::AdamOptions>(optimizer,
                                                                                 numbers);
}

bool fused_step(torch::optim::AdamW& optimizer, const StepParts::Numbers& numbers) {
  return adam_like_step<torch::optim::AdamWParamState, torch::optim::AdamWOptions>(optimizer,
                                                                                   numbers);
}

#else

bool has_fused_operators() { return false; }

bool fused_step(torch::optim::SGD& /*optimizer*/, const StepParts::Numbers& /*numbers*/) {
  return false;
}
bool fused_step(torch::optim::Adam& /*optimizer*/, const StepParts::Numbers& /*numbers*/) {
  return false;
}
bool fused_step(torch::optim::AdamW& /*optimizer*/, const StepParts::Numbers& /*numbers*/) {
  return false;
}

#endif

}  // namespace adaact
