#pragma once

#include <cstdint>

#include <torch/types.h>

namespace adaact {

/// Images (N, C, H, W) with every `stride`-th row and column, and `new_channels` channels of zeros around the others: a
/// shortcut without parameters. On a GPU, channels last, one launch each way, where autograd's operators take two and seven.
torch::Tensor shortened(const torch::Tensor& images, std::int64_t stride,
                        std::int64_t new_channels);

}  // namespace adaact
