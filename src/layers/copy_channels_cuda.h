#pragma once

#include <torch/types.h>

namespace adaact {

/// Copies images (N, C, H, W) of one dtype, channels last, whose rows of channels may be further apart than they are
/// long: a few channels of a tensor that has more. On a GPU; LibTorch's copy reads such rows element by element.
void copy_channels_cuda(const torch::Tensor& from, const torch::Tensor& to);

}  // namespace adaact
