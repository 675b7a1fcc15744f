#pragma once

#include <torch/types.h>

namespace adaact {

struct SymmetricEigen {
  torch::Tensor values;   // (…, n), ascending
  torch::Tensor vectors;  // (…, n, n), in columns
};

/// Of positive semi-definite matrices, in float64 and with values clamped at 0: rounding makes those of
/// dead and duplicate inputs slightly negative.
inline SymmetricEigen symmetric_eigen(const torch::Tensor& matrix) {
  const auto [values, vectors] = at::linalg_eigh(matrix.to(torch::kFloat64));
  return {values.clamp_min(0.0), vectors};
}

/// V diag(scale) Vᵀ
inline torch::Tensor rebuilt(const torch::Tensor& vectors, const torch::Tensor& scale) {
  return (vectors * scale.unsqueeze(-2)).matmul(vectors.transpose(-2, -1));
}

}  // namespace adaact
