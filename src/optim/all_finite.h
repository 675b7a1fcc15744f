#pragma once

#include <string>

#include <adaact/observe/layer_map.h>
#include <torch/optim/optimizer.h>

namespace adaact {

/// True if no element is infinite or not a number.
bool all_finite(const torch::Tensor& tensor);

/// "the gradient of 'fc.weight' is not finite", or nothing if all of the optimizer's are.
std::string non_finite_gradient(const torch::optim::Optimizer& optimizer, const LayerMap& model);

}  // namespace adaact
