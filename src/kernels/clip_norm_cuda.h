#pragma once

#include <vector>

#include <torch/types.h>

namespace adaact {

/// Multiplies all tensors of one device by largest / norm where their norm is larger, and leaves them alone where it is
/// not, or is no number. `norm` is (1) float64 there, as global_norm_cuda() gives it. One launch, which waits for
/// nothing: a CUDA graph may hold it.
void clip_norm_cuda(const std::vector<torch::Tensor>& tensors, const torch::Tensor& norm,
                    double largest);

}  // namespace adaact
