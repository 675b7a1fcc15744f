#pragma once

#include <cstdint>

#include <torch/types.h>

namespace adaact {

/// Where every pixel of an image has its share of the gradient (N, C), which is contiguous: (N, C, height, width),
/// fewer than 2³¹ elements.
torch::Tensor global_average_backward_cuda(const torch::Tensor& gradient, std::int64_t height,
                                           std::int64_t width, bool channels_last);

}  // namespace adaact
