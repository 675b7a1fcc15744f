#include "kernels/clip_norm_cuda.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include "kernels/flat_values.cuh"

namespace adaact {
namespace {

using namespace many_tensors;

template <typename Scalar>
__device__ void scale_chunk(const FlatTensor& tensor, const Chunk& chunk, double factor) {
  constexpr int kWidth = 16 / sizeof(Scalar);
  using Wide = SumOf<Scalar>;
  const auto by = static_cast<Wide>(factor);
  auto* data = static_cast<Scalar*>(const_cast<void*>(tensor.data));
  for_each_run<kWidth>(chunk, tensor.aligned, [&](auto width, std::int64_t i) {
    constexpr int kRun = decltype(width)::value;
    auto run = load<kRun>(data + i);
    for (auto& value : run.values) value = static_cast<Scalar>(static_cast<Wide>(value) * by);
    store<kRun>(data + i, run);
  });
}

template <typename List>
__global__ void __launch_bounds__(kThreads)
    scale_down(const __grid_constant__ List list, const std::int64_t chunk_size, const double* norm,
               const double largest) {
  if (!(*norm > largest)) return;
  const auto factor = largest / *norm;
  const auto chunk = find_chunk(list, chunk_size);
  const auto& tensor = list.items[chunk.tensor];
  switch (tensor.dtype) {
    case torch::kFloat32:
      return scale_chunk<float>(tensor, chunk, factor);
    case torch::kBFloat16:
      return scale_chunk<c10::BFloat16>(tensor, chunk, factor);
    case torch::kHalf:
      return scale_chunk<c10::Half>(tensor, chunk, factor);
    default:
      return scale_chunk<double>(tensor, chunk, factor);
  }
}

/// The tensors themselves where they have no gaps, copies of the others.
std::vector<torch::Tensor> without_gaps(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> dense;
  dense.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    dense.push_back(tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous());
  }
  return dense;
}

}  // namespace

void clip_norm_cuda(const std::vector<torch::Tensor>& tensors, const torch::Tensor& norm,
                    double largest) {
  const auto dense = without_gaps(tensors);
  const auto flat = flatten(dense);
  if (flat.tensors.empty()) return;
  TORCH_CHECK(norm.device() == tensors[0].device(), "clip_norm_cuda: the norm is on ",
              norm.device(), ", expected ", tensors[0].device());
  const c10::cuda::CUDAGuard device(norm.device());
  const auto chunks = chunking_of(flat.tensors);
  launch_chunks(flat.tensors, chunks, [&](const auto& list, unsigned blocks) {
    scale_down<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        list, chunks.size, norm.data_ptr<double>(), largest);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (dense[i].is_same(tensors[i])) {
      tensors[i].unsafeGetTensorImpl()->bump_version();
    } else {
      tensors[i].copy_(dense[i]);
    }
  }
}

}  // namespace adaact
