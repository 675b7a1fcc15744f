#pragma once

#include <torch/types.h>

namespace adaact {

/// to[i] = from[i] in another dtype, rounded as Tensor::to() does: float32 to bfloat16 or half, or one of them to
/// float32. All tensors are on one device; those of each list have one dtype. The two of a pair have one shape and
/// the same order in memory, without gaps. One launch, which waits for nothing: a CUDA graph may hold it.
void convert_many_cuda(at::TensorList from, at::TensorList to);

}  // namespace adaact
