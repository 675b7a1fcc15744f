#include "optim/base/managed_parameters.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "optim/base/state_codec.h"

namespace adaact {

ManagedParameters::ManagedParameters(LayerMap model)
    : model_(std::move(model)), group_of_(model_.parameters().size()) {}

void ManagedParameters::index(
    const Groups& groups, const std::string& owner,
    const std::function<void(const NamedParameter&, std::size_t)>& check) {
  std::vector<std::size_t> indices;
  std::vector<std::optional<std::size_t>> group_of(model_.parameters().size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const auto& tensor : groups[g].params()) {
      const auto index = index_in_model(model_, tensor, owner);
      const auto& parameter = model_.parameters()[index];
      if (group_of[index] == g) continue;  // tied, and listed under each name
      TORCH_CHECK(!group_of[index], owner, ": '", parameter.name, "' is in two parameter groups, ",
                  *group_of[index], " and ", g);
      check(parameter, g);
      group_of[index] = g;
      indices.push_back(index);
    }
  }
  indices_ = std::move(indices);
  group_of_ = std::move(group_of);
}

bool ManagedParameters::is_trained(std::size_t index) const {
  const auto& tensor = model_.parameters()[index].tensor;
  // LibTorch 1.13 keeps the gradient of a parameter that was frozen.
  return group_of_[index] && tensor.requires_grad() && tensor.grad().defined();
}

std::vector<std::size_t> ManagedParameters::trained() const {
  std::vector<std::size_t> trained;
  std::copy_if(indices_.begin(), indices_.end(), std::back_inserter(trained),
               [this](std::size_t index) { return is_trained(index); });
  return trained;
}

}  // namespace adaact
