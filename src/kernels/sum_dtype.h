#pragma once

#include <type_traits>

#include <torch/types.h>

namespace adaact {

/// Sums and optimizer state: float64 for float64, float32 for everything narrower.
inline torch::ScalarType sum_dtype(const torch::Tensor& tensor) {
  return tensor.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

/// The C++ type of sums over numbers of a C++ type.
template <typename Scalar>
using SumOf = std::conditional_t<std::is_same_v<Scalar, double>, double, float>;

/// The dtypes that the CUDA kernels know.
inline bool has_kernels(torch::ScalarType dtype) {
  return dtype == torch::kFloat32 || dtype == torch::kBFloat16 || dtype == torch::kHalf ||
         dtype == torch::kFloat64;
}

}  // namespace adaact
