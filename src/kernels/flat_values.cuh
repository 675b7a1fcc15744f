#pragma once

// Reading all elements of tensors of any dtype in one launch.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <torch/types.h>

#include "kernels/sum_dtype.h"
#include "kernels/tensor_chunks.cuh"

namespace adaact::many_tensors {

/// A tensor as a run of numbers.
struct FlatTensor {
  const void* data;
  std::int64_t numel;
  std::uint32_t position;  // in the caller's list
  torch::ScalarType dtype;
  bool aligned;
};

struct FlatTensors {
  std::vector<FlatTensor> tensors;    // those with elements
  std::vector<torch::Tensor> copies;  // of tensors with gaps or repeated elements
};

inline FlatTensors flatten(const std::vector<torch::Tensor>& list) {
  FlatTensors flat;
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto tensor = list[i].is_complex() ? torch::view_as_real(list[i]) : list[i];
    if (tensor.numel() == 0) continue;
    TORCH_CHECK(tensor.is_cuda() && tensor.device() == list[0].device(),
                "tensors on different devices: ", tensor.device(), " and ", list[0].device());
    TORCH_CHECK(has_kernels(tensor.scalar_type()), "unexpected dtype ", tensor.scalar_type());
    if (!tensor.is_non_overlapping_and_dense()) {
      tensor = tensor.contiguous();
      flat.copies.push_back(tensor);
    }
    const auto* data = tensor.data_ptr();
    const bool aligned = reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
    flat.tensors.push_back(
        {data, tensor.numel(), static_cast<std::uint32_t>(i), tensor.scalar_type(), aligned});
  }
  return flat;
}

template <typename Scalar, typename Visit>
__device__ void for_each_value_of(const FlatTensor& tensor, const Chunk& chunk,
                                  const Visit& visit) {
  constexpr int kWidth = 16 / sizeof(Scalar);
  const auto* data = static_cast<const Scalar*>(tensor.data);
  std::int64_t rest = chunk.begin;
  if (tensor.aligned) {
    rest = chunk.end - (chunk.end - chunk.begin) % kWidth;
#pragma unroll 4  // a thread has nothing else to wait with than several loads
    for (auto i = chunk.begin + threadIdx.x * kWidth; i < rest; i += kThreads * kWidth) {
      const auto run = load<kWidth>(data + i);
      for (const auto value : run.values) visit(static_cast<SumOf<Scalar>>(value));
    }
  }
#pragma unroll 4
  for (auto i = rest + threadIdx.x; i < chunk.end; i += kThreads) {
    visit(static_cast<SumOf<Scalar>>(data[i]));
  }
}

/// Calls visit(value) with float or double.
template <typename Visit>
__device__ void for_each_value(const FlatTensor& tensor, const Chunk& chunk, const Visit& visit) {
  switch (tensor.dtype) {
    case torch::kFloat32:
      return for_each_value_of<float>(tensor, chunk, visit);
    case torch::kBFloat16:
      return for_each_value_of<c10::BFloat16>(tensor, chunk, visit);
    case torch::kHalf:
      return for_each_value_of<c10::Half>(tensor, chunk, visit);
    default:
      return for_each_value_of<double>(tensor, chunk, visit);
  }
}

}  // namespace adaact::many_tensors
