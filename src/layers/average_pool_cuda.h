#pragma once

// Means over squares of pixels, for images (N, C, H, W) that are dense with channels last, on a GPU.

#include <cstdint>

#include <torch/types.h>

namespace adaact {

torch::Tensor average_pool_forward_cuda(const torch::Tensor& images, std::int64_t size);

/// Returns the gradient of images of this shape.
torch::Tensor average_pool_backward_cuda(const torch::Tensor& gradient, at::IntArrayRef shape,
                                         std::int64_t size);

}  // namespace adaact
