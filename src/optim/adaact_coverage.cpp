#include <string>

#include "optim/adaact_internals.h"

namespace adaact {
namespace {

std::string why_not_observed(const LayerMap& map, const NamedParameter& parameter) {
  if (!parameter.tensor.requires_grad()) return "frozen: it takes no gradient";
  if (parameter.is_layer_weight) return "its layer has not been used in training yet";
  switch (map.layers()[parameter.layer].kind) {
    case LayerKind::Normalization:
      return "parameter of a normalisation";
    case LayerKind::Embedding:
      return "embedding: its input is an index";
    case LayerKind::TransposedConvolution:
      return "transposed convolution";
    case LayerKind::Recurrent:
      return "recurrent cell";
    case LayerKind::Linear:
    case LayerKind::Convolution:
    case LayerKind::PackedProjection:
      return parameter.tensor.dim() == 1 ? "bias of a layer that has not been used in training yet"
                                         : "attention parameter that is no layer's weight";
    case LayerKind::Other:
      break;
  }
  return "not seen as a layer's weight or bias";
}

}  // namespace

std::vector<ParameterCoverage> AdaAct::coverage() const {
  const auto& map = internals_->map();
  std::vector<ParameterCoverage> all;
  for (std::size_t index = 0; index < map.parameters().size(); ++index) {
    const auto& parameter = map.parameters()[index];
    if (internals_->group_of[index] == LayerMap::kNotFound) {
      all.push_back({parameter.name, false, "in no parameter group: it is not updated"});
      continue;
    }
    const auto* state = find_state(parameter.tensor);
    if (state == nullptr || state->moments().segments.empty()) {
      all.push_back({parameter.name, false, why_not_observed(map, parameter)});
    } else {
      all.push_back({parameter.name, true,
                     state->moments().ema.defined() ? "weight of an observed layer"
                                                    : "bias of an observed layer"});
    }
  }
  return all;
}

void AdaAct::warn_about_unseen_layers() const {
  const auto& map = internals_->map();
  const auto all = coverage();
  std::string names;
  for (std::size_t index = 0; index < all.size(); ++index) {
    const auto& parameter = map.parameters()[index];
    const bool eligible = parameter.is_layer_weight && parameter.tensor.requires_grad() &&
                          internals_->group_of[index] != LayerMap::kNotFound;
    if (eligible && !all[index].observed) names += (names.empty() ? "" : ", ") + parameter.name;
  }
  if (names.empty()) return;
  TORCH_WARN("AdaAct: the first step saw no use of the layers with these weights: ", names,
             ". Until they are used while gradients are recorded they follow the rule for "
             "unobserved parameters; coverage() tells more.");
}

}  // namespace adaact
