#pragma once

#include <torch/types.h>

namespace adaact {

/// (N, channels, height, width) → (N, channels). On a GPU the gradient is written in the order of the images: LibTorch
/// writes it with the channels first, and whoever has them last copies all of it.
torch::Tensor global_average(const torch::Tensor& x);

}  // namespace adaact
