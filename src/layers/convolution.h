#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/types.h>

namespace adaact {

/// layer->forward(x), with the weights that NarrowWeights has where there are such.
torch::Tensor convolution(const torch::nn::Conv2d& layer, const torch::Tensor& x);

}  // namespace adaact
