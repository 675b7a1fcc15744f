#pragma once

#include <functional>

#include <torch/types.h>

namespace adaact {

/// Whether autograd shows that a tensor is made of leaves of this kind and of nothing else. False wherever it
/// does not show it: beside tensors that take no gradient, beyond operators that also read indices or draw
/// random numbers, and for what took many operators to make.
bool comes_from_leaves_alone(const torch::Tensor& tensor,
                             const std::function<bool(const torch::Tensor&)>& is_such_leaf);

}  // namespace adaact
