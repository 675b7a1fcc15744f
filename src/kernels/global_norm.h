#pragma once

#include <vector>

#include <torch/types.h>

#include "kernels/sum_dtype.h"

namespace adaact {

inline torch::Tensor norm_of(const torch::Tensor& tensor) {
  return at::linalg_vector_norm(tensor, 2, at::OptionalIntArrayRef(), /*keepdim=*/false,
                                sum_dtype(tensor));
}

/// The norm of all tensors together.
inline double global_norm(const std::vector<torch::Tensor>& tensors) {
  if (tensors.empty()) return 0.0;
  std::vector<torch::Tensor> norms;
  norms.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    norms.push_back(norm_of(tensor).to(tensors[0].device(), torch::kFloat64));
  }
  return torch::stack(norms).norm().item<double>();
}

}  // namespace adaact
