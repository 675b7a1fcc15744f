#pragma once

// Batch normalisation with what follows it in the models. On a GPU, in training, one pair of kernels each way;
// everywhere else the layers one by one.

#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

namespace adaact {

/// One value that goes two ways. On a GPU the gradients of both are added where they are used, and not in a pass
/// of its own.
struct Forked {
  torch::Tensor onward;
  torch::Tensor around;
};

// An empty norm leaves its input as it is. Those with ReLU write what convolutions read, and on a GPU sum its squares on
// the way where an optimizer wants them (moments/offered_squares.h); without ReLU it goes into a residual.

torch::Tensor batch_norm(torch::nn::BatchNorm2d& norm, const torch::Tensor& x);

/// max(0, norm(x))
torch::Tensor batch_norm_relu(torch::nn::BatchNorm2d& norm, const torch::Tensor& x);

/// max(0, norm(x) + residual); an undefined residual counts as zero.
Forked batch_norm_add_relu(torch::nn::BatchNorm2d& norm, const torch::Tensor& x,
                           const torch::Tensor& residual);

/// onward: max(0, norm(x)); around: x. On a GPU the gradient of x is written over that of `around`.
Forked batch_norm_relu_around(torch::nn::BatchNorm2d& norm, const torch::Tensor& x);

}  // namespace adaact
