#pragma once

// Many tensors element by element in one launch: a block works on a chunk of one of them. The list is
// that of many_tensors.cuh; here is how tensors are cut into chunks, and how a block reads and
// writes its own.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <ATen/cuda/CUDAContext.h>

#include "kernels/ceil_div.h"
#include "kernels/many_tensors.cuh"
#include "kernels/runs.cuh"

namespace adaact::many_tensors {

constexpr int kThreads = 256;
/// A chunk is a multiple of this, so that it is aligned where its tensor is.
constexpr std::int64_t kChunkGranule = 1024;
/// Twice what is resident at full occupancy: large chunks, and the last ones still even out.
constexpr std::int64_t kChunksPerMultiprocessor = 16;
/// Tensors of a small launch: a ResNet-20 has some 60 parameters.
constexpr int kFewTensors = 64;

struct Chunking {
  std::int64_t size = kChunkGranule;
  std::int64_t count = 0;
};

/// Chunks for the current device. A tensor has a member numel.
template <typename Tensor>
Chunking chunking_of(const std::vector<Tensor>& tensors) {
  std::int64_t elements = 0;
  for (const auto& tensor : tensors) elements += tensor.numel;
  const auto blocks =
      kChunksPerMultiprocessor * at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  Chunking chunks;
  chunks.size = std::max<std::int64_t>(1, ceil_div(elements, blocks * kChunkGranule));
  chunks.size *= kChunkGranule;
  for (const auto& tensor : tensors) chunks.count += ceil_div(tensor.numel, chunks.size);
  return chunks;
}

/// Calls launch(list, blocks) for as many lists as the tensors need. None of them may be empty.
template <typename Tensor, typename Launch>
void launch_chunks(const std::vector<Tensor>& tensors, const Chunking& chunks,
                   const Launch& launch) {
  const auto chunks_of = [&](const Tensor& tensor) { return ceil_div(tensor.numel, chunks.size); };
  launch_lists<kFewTensors>(tensors, chunks_of, launch);
}

/// Elements [begin, end) of a tensor, in the order of memory.
struct Chunk {
  int tensor;  // in the list
  std::int64_t begin, end;
};

/// What this block works on.
template <typename List>
__device__ Chunk find_chunk(const List& list, std::int64_t chunk_size) {
  const int tensor = owner_of(list, blockIdx.x);
  const std::int64_t begin = (blockIdx.x - list.first_block[tensor]) * chunk_size;
  const std::int64_t end = begin + chunk_size;
  const std::int64_t numel = list.items[tensor].numel;
  return {tensor, begin, end < numel ? end : numel};
}

/// Calls visit(width, i) for the runs [i, i + width) of a chunk; width is a compile-time constant.
template <int kWidth, typename Visit>
__device__ void for_each_run(const Chunk& chunk, bool aligned, const Visit& visit) {
  std::int64_t rest = chunk.begin;
  if (aligned) {
    rest = chunk.end - (chunk.end - chunk.begin) % kWidth;
    for (auto i = chunk.begin + threadIdx.x * kWidth; i < rest; i += kThreads * kWidth) {
      visit(std::integral_constant<int, kWidth>(), i);
    }
  }
  for (auto i = rest + threadIdx.x; i < chunk.end; i += kThreads) {
    visit(std::integral_constant<int, 1>(), i);
  }
}

/// Σ over the block's threads in a fixed order; in thread 0 only.
inline __device__ double block_sum(double value) {
  __shared__ double of_warp[kThreads / 32];
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_down_sync(0xffffffffU, value, lanes);
  __syncthreads();  // of_warp may still be in use by the sum before
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0.0;
  if (threadIdx.x == 0) {
    for (const double part : of_warp) sum += part;
  }
  return sum;
}

}  // namespace adaact::many_tensors
