#pragma once

#include <cstdint>

#include <torch/types.h>

namespace adaact {

/// Whether two tensors of one shape have their elements in the same order in memory. The stride of a
/// dimension of size 1 says nothing: cuDNN gives the gradient of a 1×1 kernel another one.
inline bool are_laid_out_alike(const torch::Tensor& left, const torch::Tensor& right) {
  for (std::int64_t dim = 0; dim < left.dim(); ++dim) {
    if (left.size(dim) != 1 && left.stride(dim) != right.stride(dim)) return false;
  }
  return true;
}

/// A tensor in the order of another one of its shape, and where that is: itself where it is so already.
inline torch::Tensor laid_out_as(const torch::Tensor& other, const torch::Tensor& tensor,
                                 torch::ScalarType dtype) {
  if (are_laid_out_alike(tensor, other) && tensor.scalar_type() == dtype &&
      tensor.device() == other.device()) {
    return tensor.as_strided(other.sizes(), other.strides());
  }
  return torch::empty_strided(other.sizes(), other.strides(),
                              other.options().dtype(dtype).requires_grad(false))
      .copy_(tensor);
}

}  // namespace adaact
