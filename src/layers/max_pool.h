#pragma once

// The maximum of windows. On a GPU autograd keeps a byte for each window, and not the input.

#include <cstdint>

#include <torch/types.h>

namespace adaact {

/// As torch::max_pool2d(x, kernel, stride, padding).
torch::Tensor max_pool(const torch::Tensor& x, std::int64_t kernel, std::int64_t stride,
                       std::int64_t padding);

}  // namespace adaact
