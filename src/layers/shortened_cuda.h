#pragma once

// Every so many rows and columns of images (N, C, H, W), dense with channels last, among more channels, on a GPU.

#include <cstdint>

#include <torch/types.h>

namespace adaact {

/// Puts `before` and `after` channels of zeros around those of the images.
torch::Tensor shorten_cuda(const torch::Tensor& images, std::int64_t stride, std::int64_t before,
                           std::int64_t after);

/// Returns the gradient of images of this shape.
torch::Tensor lengthen_cuda(const torch::Tensor& gradient, at::IntArrayRef shape,
                            std::int64_t stride, std::int64_t before);

}  // namespace adaact
