#include "optim/base/first_non_finite.h"

#include <algorithm>

#include "kernels/all_finite.h"
#include "optim/device/device_session.h"

namespace adaact {

std::optional<std::size_t> first_non_finite(const std::vector<torch::Tensor>& tensors) {
  if (DeviceSession::can_check(tensors)) {
    DeviceSession session(/*groups=*/1, tensors[0].device());
    session.begin(tensors);
    return session.culprit();
  }
  const auto found = std::find_if_not(tensors.begin(), tensors.end(), all_finite);
  if (found == tensors.end()) return std::nullopt;
  return static_cast<std::size_t>(found - tensors.begin());
}

std::string non_finite_gradient(const torch::optim::Optimizer& optimizer, const LayerMap& model) {
  std::vector<torch::Tensor> gradients;
  std::vector<torch::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      const auto& gradient = parameter.grad();
      if (!parameter.requires_grad() || !gradient.defined()) continue;
      gradients.push_back(gradient.is_sparse() ? gradient._values() : gradient);
      parameters.push_back(parameter);
    }
  }
  const auto culprit = first_non_finite(gradients);
  if (!culprit) return {};
  const auto index = model.find(parameters[*culprit]);
  const auto name = index ? model.parameters()[*index].name : "a parameter";
  return "the gradient of '" + name + "' is not finite";
}

}  // namespace adaact
