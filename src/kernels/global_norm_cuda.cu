#include "kernels/global_norm_cuda.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include "kernels/flat_values.cuh"

namespace adaact {
namespace {

using namespace many_tensors;

/// partial[chunk] = Σ x²
template <typename List>
__global__ void __launch_bounds__(kThreads)
    sum_squares(const __grid_constant__ List list, const std::int64_t chunk_size, double* partial) {
  const auto chunk = find_chunk(list, chunk_size);
  double sum = 0.0;
  for_each_value(list.items[chunk.tensor], chunk, [&](auto value) {
    const auto x = static_cast<double>(value);
    sum += x * x;
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// Launched with one block, which adds up what the blocks before it have left.
__global__ void __launch_bounds__(kThreads)
    finish_norm(const double* partial, std::int64_t count, double* norm) {
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *norm = sqrt(sum);
}

}  // namespace

torch::Tensor global_norm_cuda(const std::vector<torch::Tensor>& tensors) {
  TORCH_CHECK(!tensors.empty(), "global_norm_cuda: no tensors");
  const auto options = torch::dtype(torch::kFloat64).device(tensors[0].device());
  const c10::cuda::CUDAGuard device(tensors[0].device());
  const auto flat = flatten(tensors);
  const auto chunks = chunking_of(flat.tensors);
  const auto partial = torch::empty({chunks.count}, options);
  auto norm = torch::empty({1}, options);
  const auto stream = at::cuda::getCurrentCUDAStream();
  auto* of_list = partial.data_ptr<double>();  // where the chunks of a list begin
  launch_chunks(flat.tensors, chunks, [&](const auto& list, unsigned blocks) {
    sum_squares<<<blocks, kThreads, 0, stream>>>(list, chunks.size, of_list);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    of_list += blocks;
  });
  finish_norm<<<1, kThreads, 0, stream>>>(partial.data_ptr<double>(), chunks.count,
                                          norm.data_ptr<double>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return norm;
}

}  // namespace adaact
