#pragma once

#include <memory>

#include <adaact/ranks/communicator.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

namespace adaact {

/// norm->forward(x) of a training pass, with the mean and the variance of the images of all ranks: each gets what it
/// would get of one process that has all of them. Its gradients cannot be differentiated once more.
torch::Tensor synchronized_batch_norm(torch::nn::BatchNorm2d& norm, const torch::Tensor& x,
                                      const std::shared_ptr<Communicator>& ranks);

}  // namespace adaact
