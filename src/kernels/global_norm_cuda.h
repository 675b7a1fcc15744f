#pragma once

#include <vector>

#include <torch/types.h>

namespace adaact {

/// The norm of all tensors of one device together, (1) float64 there. Equal inputs give equal bits.
torch::Tensor global_norm_cuda(const std::vector<torch::Tensor>& tensors);

}  // namespace adaact
