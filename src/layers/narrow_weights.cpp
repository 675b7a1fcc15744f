#include "layers/narrow_weights.h"

#include <unordered_set>

#include <torch/torch.h>

#include "kernels/autocast_setting.h"
#include "kernels/convert_many_cuda.h"
#include "kernels/memory_layout.h"
#include "layers/plain_layers.h"

namespace adaact {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

torch::Tensor empty_as(const torch::Tensor& other, torch::ScalarType dtype) {
  return torch::empty_strided(other.sizes(), other.strides(), other.options().dtype(dtype));
}

/// Copies of all parameters in another dtype, as one node of autograd's graph.
class NarrowCopies : public torch::autograd::Function<NarrowCopies> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList parameters,
                               torch::ScalarType dtype,
                               const c10::intrusive_ptr<GradientsAside>& aside) {
    variable_list copies;
    variable_list frozen;
    for (const auto& parameter : parameters) {
      copies.push_back(empty_as(parameter, dtype));
      if (!parameter.requires_grad()) frozen.push_back(copies.back());
    }
    convert_many_cuda(parameters, copies);
    context->mark_non_differentiable(frozen);
    context->set_materialize_grads(false);
    // Not save_for_backward(): their values are not read, and may change before the backward pass. This node keeps them
    // alive in any case, by the nodes that add up their gradients.
    context->saved_data["parameters"] = parameters.vec();
    context->saved_data["aside"] = c10::IValue::make_capsule(aside);
    return copies;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto parameters = context->saved_data["parameters"].toTensorVector();
    const auto aside = c10::static_intrusive_pointer_cast<GradientsAside>(
        context->saved_data["aside"].toCapsule());
    variable_list of_parameters(parameters.size() + 2);  // none of what is no parameter
    variable_list narrow;
    variable_list wide;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& parameter = parameters[i];
      const auto made_aside = aside->take(parameter);
      if (made_aside.defined()) {
        gradients[i] = gradients[i].defined() ? gradients[i] + made_aside : made_aside;
      }
      if (!gradients[i].defined()) continue;
      if (torch::GradMode::is_enabled()) {  // to be differentiated once more
        of_parameters[i] = gradients[i].to(parameter.scalar_type());
        continue;
      }
      if (!are_laid_out_alike(gradients[i], parameter)) {
        gradients[i] = empty_as(parameter, gradients[i].scalar_type()).copy_(gradients[i]);
      }
      // Each gradient has memory of its own and lies there as its parameter does: autograd keeps such a one without a
      // copy.
      of_parameters[i] = empty_as(parameter, parameter.scalar_type());
      narrow.push_back(gradients[i]);
      wide.push_back(of_parameters[i]);
    }
    convert_many_cuda(narrow, wide);
    return of_parameters;
  }
};

/// Parameters of convolutions and linear layers, each once, as far as they can be copied to another dtype on this
/// device.
variable_list parameters_of_layers(const torch::nn::Module& model, torch::Device device) {
  variable_list parameters;
  std::unordered_set<const c10::TensorImpl*> known;
  const auto add = [&](const torch::Tensor& parameter) {
    if (parameter.defined() && parameter.device() == device &&
        parameter.scalar_type() == torch::kFloat32 && parameter.layout() == torch::kStrided &&
        parameter.is_non_overlapping_and_dense() &&
        known.insert(parameter.unsafeGetTensorImpl()).second) {
      parameters.push_back(parameter);
    }
  };
  const auto add_those_of = [&](const torch::nn::Module& module) {
    if (const auto* convolution = module.as<torch::nn::Conv2d>()) {
      add(convolution->weight);
      add(convolution->bias);
    } else if (const auto* linear = module.as<torch::nn::Linear>()) {
      add(linear->weight);
      add(linear->bias);
    }
  };
  add_those_of(model);
  for (const auto& module : model.modules(/*include_self=*/false)) add_those_of(*module);
  return parameters;
}

const NarrowWeights*& innermost_narrow_weights() {
  thread_local const NarrowWeights* innermost = nullptr;
  return innermost;
}

}  // namespace

NarrowWeights::NarrowWeights(const torch::nn::Module& model, const torch::Tensor& input)
    : outer_(innermost_narrow_weights()) {
  const auto dtype = autocast_dtype(torch::kCUDA);
  if (may_be_fused(input) && (dtype == torch::kBFloat16 || dtype == torch::kHalf)) {
    const auto parameters = parameters_of_layers(model, input.device());
    const auto copies = parameters.empty()
                            ? variable_list()
                            : NarrowCopies::apply(at::TensorList(parameters), *dtype, gradients_);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Copies both{copies[i], copies[i].detach()};
      copies_.emplace(parameters[i].unsafeGetTensorImpl(), both);
      stand_ins_.add(both.with_gradient, parameters[i]);
      stand_ins_.add(both.constant, parameters[i], StandIns::Gradient::BySomebodyElse);
    }
  }
  innermost_narrow_weights() = this;
}

NarrowWeights::~NarrowWeights() { innermost_narrow_weights() = outer_; }

const NarrowWeights::Copies* NarrowWeights::copies_of(const torch::Tensor& parameter) {
  const auto* scope = innermost_narrow_weights();
  if (scope == nullptr || !parameter.defined() || !may_be_fused(parameter)) return nullptr;
  const auto found = scope->copies_.find(parameter.unsafeGetTensorImpl());
  if (found == scope->copies_.end()) return nullptr;
  const auto& copy = found->second.with_gradient;
  if (autocast_dtype(torch::kCUDA) != copy.scalar_type()) return nullptr;
  // No way leads back from a copy that was made while gradients were off.
  const bool leads_back = copy.requires_grad() || !parameter.requires_grad();
  return leads_back || !torch::GradMode::is_enabled() ? &found->second : nullptr;
}

torch::Tensor NarrowWeights::of(const torch::Tensor& parameter) {
  const auto* copies = copies_of(parameter);
  return copies != nullptr ? copies->with_gradient : parameter;
}

std::optional<NarrowWeights::Constant> NarrowWeights::constant_of(const torch::Tensor& parameter) {
  const auto* copies = copies_of(parameter);
  if (copies == nullptr || !copies->with_gradient.requires_grad()) return std::nullopt;
  return Constant{copies->constant, innermost_narrow_weights()->gradients_};
}

}  // namespace adaact
