#include <adaact/optim/param_groups.h>

#include <string>

#include <adaact/observe/layer_map.h>

namespace adaact {
namespace {

bool is_token(const std::string& name) {
  const auto last = name.substr(name.rfind('.') + 1);
  return last.find("token") != std::string::npos || last.find("pos_embed") != std::string::npos ||
         last.find("position") != std::string::npos;
}

}  // namespace

DecaySplit split_for_weight_decay(torch::nn::Module& module) {
  DecaySplit split;
  const LayerMap map(module);  // lists each tensor once, even where it is tied
  for (const auto& parameter : map.parameters()) {
    const bool exempt = parameter.tensor.dim() <= 1 || is_token(parameter.name);
    (exempt ? split.no_decay : split.decay).push_back(parameter.tensor);
  }
  return split;
}

}  // namespace adaact
