#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <torch/optim/optimizer.h>

namespace adaact {

/// True if no element is infinite or not a number.
bool all_finite(const torch::Tensor& tensor);

/// The first tensor with an element that is infinite or not a number; their number where there is none.
/// On a GPU one launch and one wait for all.
std::size_t first_non_finite(const std::vector<torch::Tensor>& tensors);

/// "the gradient of 'fc.weight' is not finite", or nothing if all of the optimizer's are.
std::string non_finite_gradient(const torch::optim::Optimizer& optimizer, const LayerMap& model);

}  // namespace adaact
