#pragma once

#include <torch/types.h>

namespace adaact {

/// Sums and optimizer state: float64 for float64, float32 for everything narrower.
inline torch::ScalarType sum_dtype(const torch::Tensor& tensor) {
  return tensor.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

}  // namespace adaact
