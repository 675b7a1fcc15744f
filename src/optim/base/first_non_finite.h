#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <torch/optim/optimizer.h>

namespace adaact {

/// The first tensor, if any, with an element that is infinite or not a number. On a GPU one launch and one
/// wait for all.
std::optional<std::size_t> first_non_finite(const std::vector<torch::Tensor>& tensors);

/// "the gradient of 'fc.weight' is not finite", or nothing if all of the optimizer's are.
std::string non_finite_gradient(const torch::optim::Optimizer& optimizer, const LayerMap& model);

}  // namespace adaact
