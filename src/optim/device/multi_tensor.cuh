#pragma once

// One launch for the tensors of a whole model. Their addresses and options are parameters of the
// kernel: nothing is copied to the device beforehand, so that a launch can be captured in a graph.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/types.h>

#include "optim/device/device_step.h"

namespace adaact::multi_tensor {

constexpr int kThreads = 256;
/// A chunk is a multiple of this, so that it is aligned where its tensor is.
constexpr std::int64_t kChunkGranule = 1024;
/// Twice what is resident at full occupancy: large chunks, and the last ones still even out.
constexpr std::int64_t kChunksPerMultiprocessor = 16;

#if CUDART_VERSION >= 12010
constexpr std::size_t kParameterBytes = 32764;
#else
constexpr std::size_t kParameterBytes = 4096;
#endif
constexpr std::size_t kOtherParameterBytes = 256;  // what a kernel takes besides the list

/// The tensors of one launch. A block works on one chunk of one of them.
template <typename Descriptor, int kCapacity>
struct TensorList {
  Descriptor tensors[kCapacity];             // each with a member numel
  std::uint32_t first_chunk[kCapacity + 1];  // of each tensor, among the blocks of this launch
  std::int32_t count;
  std::int64_t chunk_size;
  std::int64_t chunks_before, tensors_before;  // in earlier launches of the same list
};

/// A launch costs the host time in proportion to its parameters' size, used or not: hence two sizes.
template <typename Descriptor>
constexpr int kMany = std::min<int>(512, (kParameterBytes - kOtherParameterBytes) /
                                             (sizeof(Descriptor) + sizeof(std::uint32_t)));
template <typename Descriptor>
constexpr int kFew = std::min(64, kMany<Descriptor>);

struct Chunking {
  std::int64_t size = kChunkGranule;
  std::int64_t count = 0;
};

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Chunks for the current device.
template <typename Descriptor>
Chunking chunking_of(const std::vector<Descriptor>& tensors) {
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

template <int kCapacity, typename Descriptor, typename Launch>
void launch_lists_of(const std::vector<Descriptor>& tensors, std::int64_t chunk_size,
                     const Launch& launch) {
  TensorList<Descriptor, kCapacity> list{};
  list.chunk_size = chunk_size;
  for (std::size_t first = 0; first < tensors.size(); first += kCapacity) {
    list.count =
        static_cast<std::int32_t>(std::min<std::size_t>(kCapacity, tensors.size() - first));
    std::uint32_t chunks = 0;
    for (std::int32_t i = 0; i < list.count; ++i) {
      list.tensors[i] = tensors[first + i];
      list.first_chunk[i] = chunks;
      chunks += static_cast<std::uint32_t>(ceil_div(list.tensors[i].numel, chunk_size));
    }
    list.first_chunk[list.count] = chunks;
    launch(list, chunks);
    list.chunks_before += chunks;
    list.tensors_before += list.count;
  }
}

/// Calls launch(list, blocks) for as many lists as the tensors need. None of them may be empty.
template <typename Descriptor, typename Launch>
void launch_lists(const std::vector<Descriptor>& tensors, const Chunking& chunks,
                  const Launch& launch) {
  if (tensors.size() <= static_cast<std::size_t>(kFew<Descriptor>)) {
    launch_lists_of<kFew<Descriptor>>(tensors, chunks.size, launch);
  } else {
    launch_lists_of<kMany<Descriptor>>(tensors, chunks.size, launch);
  }
}

/// Elements [begin, end) of a tensor, in the order of memory.
struct Chunk {
  int tensor;
  std::int64_t begin, end;
};

template <typename List>
__device__ Chunk find_chunk(const List& list) {
  int low = 0;
  int high = list.count - 1;
  while (low < high) {  // the last tensor that begins at this block or before
    const int middle = (low + high + 1) / 2;
    if (list.first_chunk[middle] <= blockIdx.x) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const std::int64_t begin = (blockIdx.x - list.first_chunk[low]) * list.chunk_size;
  const std::int64_t end = begin + list.chunk_size;
  const std::int64_t numel = list.tensors[low].numel;
  return {low, begin, end < numel ? end : numel};
}

/// Optimizer state of a parameter of this type.
template <typename Scalar>
using StateOf = std::conditional_t<std::is_same_v<Scalar, double>, double, float>;

/// Neighbouring elements that one thread reads or writes at once: 16 bytes at most.
template <typename Scalar, int kWidth>
struct alignas(kWidth * sizeof(Scalar)) Run {
  Scalar values[kWidth];
};

/// What the hardware moves at once.
template <std::size_t kBytes>
using Word = std::conditional_t<
    kBytes == 16, uint4,
    std::conditional_t<kBytes == 8, uint2,
                       std::conditional_t<kBytes == 4, unsigned, unsigned short>>>;

template <int kWidth, typename Scalar>
__device__ Run<Scalar, kWidth> load(const Scalar* from) {
  using Runs = Run<Scalar, kWidth>;
  const auto word = *reinterpret_cast<const Word<sizeof(Runs)>*>(from);
  static_assert(sizeof(word) == sizeof(Runs));
  Runs run;
  memcpy(&run, &word, sizeof(run));
  return run;
}

template <int kWidth, typename Scalar>
__device__ void store(Scalar* to, const Run<Scalar, kWidth>& run) {
  Word<sizeof(run)> word;
  static_assert(sizeof(word) == sizeof(run));
  memcpy(&word, &run, sizeof(run));
  __stwb(reinterpret_cast<Word<sizeof(run)>*>(to), word);  // a plain store may be taken apart
}

/// True if runs of each of the arrays can be read at once; null counts as aligned.
template <int kWidth, typename... Scalar>
bool aligned_for_runs(const Scalar*... arrays) {
  return ((reinterpret_cast<std::uintptr_t>(arrays) % alignof(Run<Scalar, kWidth>) == 0) && ...);
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

/// What a kernel reads of a DeviceStep; nothing in an eager step.
struct StepView {
  explicit StepView(const DeviceStep* step) {
    if (step == nullptr) return;
    lr = step->lr.data_ptr<double>();
    accepted = step->accepted.data_ptr<std::int64_t>();
    bad = step->bad.data_ptr<std::int32_t>();
  }

  __device__ bool is_left_out() const { return bad != nullptr && *bad != 0; }
  __device__ double rate(double eager, int group) const {
    return lr != nullptr ? lr[group] : eager;
  }
  /// t of the update under way, given the updates before the host's count was read.
  __device__ std::int64_t number_after(std::int64_t before) const {
    return before + 1 + (accepted != nullptr ? *accepted : 0);
  }

  const double* lr = nullptr;
  const std::int64_t* accepted = nullptr;
  const std::int32_t* bad = nullptr;
};

/// 1 − βᵗ
inline __device__ double bias_correction(double beta, std::int64_t t) {
  return 1.0 - pow(beta, static_cast<double>(t));
}

inline bool is_supported(torch::ScalarType dtype) {
  return dtype == torch::kFloat32 || dtype == torch::kBFloat16 || dtype == torch::kHalf ||
         dtype == torch::kFloat64;
}

/// True if both fill their memory without gaps and have their elements there in the same order.
inline bool same_order(const torch::Tensor& one, const torch::Tensor& other) {
  if (one.sizes() != other.sizes() || !one.is_non_overlapping_and_dense() ||
      !other.is_non_overlapping_and_dense()) {
    return false;
  }
  for (std::int64_t dim = 0; dim < one.dim(); ++dim) {
    if (one.size(dim) > 1 && one.stride(dim) != other.stride(dim)) return false;
  }
  return true;
}

/// True if the tensor is strided memory on θ's device, in θ's order.
inline bool goes_with(const torch::Tensor& theta, const torch::Tensor& tensor,
                      torch::ScalarType dtype) {
  return tensor.defined() && tensor.layout() == torch::kStrided &&
         tensor.device() == theta.device() && tensor.scalar_type() == dtype &&
         same_order(theta, tensor);
}

/// Parameters of one dtype and device, in the order of the list.
template <typename Parameter>
struct Kind {
  torch::Device device;
  torch::ScalarType dtype;
  std::vector<const Parameter*> parameters;
};

/// What has no elements is left out.
template <typename Parameter>
std::vector<Kind<Parameter>> by_kind(const std::vector<Parameter>& parameters) {
  std::vector<Kind<Parameter>> kinds;
  for (const auto& parameter : parameters) {
    const auto& theta = parameter.tensors.theta;
    if (theta.numel() == 0) continue;
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& each) {
      return each.device == theta.device() && each.dtype == theta.scalar_type();
    });
    if (kind == kinds.end()) {
      kind = kinds.insert(kind, {theta.device(), theta.scalar_type(), {}});
    }
    kind->parameters.push_back(&parameter);
  }
  return kinds;
}

/// Whatever holds the old values for a backward pass must know that they are gone.
template <typename Parameter>
void bump_versions(const std::vector<Parameter>& parameters) {
  for (const auto& parameter : parameters) {
    parameter.tensors.theta.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace adaact::multi_tensor
