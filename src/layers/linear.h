#pragma once

// Linear layers as the models use them.

#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "layers/branch.h"

namespace adaact {

/// torch::nn::Linear::forward() adds the bias in a pass of its own where an input has more than two dimensions.
torch::Tensor linear(const torch::nn::Linear& layer, const torch::Tensor& x);

/// The layer's output for a residual stream. Where the bias can be added with the rest, it is left to that.
Branch linear_branch(const torch::nn::Linear& layer, const torch::Tensor& x);

/// GELU of the layer's output. On a GPU the bias is added where GELU is computed.
torch::Tensor linear_gelu(const torch::nn::Linear& layer, const torch::Tensor& x);

}  // namespace adaact
