#pragma once

#include <torch/types.h>

namespace adaact {

/// A tensor of a batch where the model is. From pinned memory to a GPU the host does not wait for the copy; what it
/// copies from other memory it has read when this returns, so a batch may be let go at once in any case.
inline torch::Tensor on_device(const torch::Tensor& of_batch, torch::Device device) {
  return of_batch.to(torch::device(device), /*non_blocking=*/device.is_cuda());
}

}  // namespace adaact
