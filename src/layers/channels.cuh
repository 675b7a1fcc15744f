#pragma once

// Sums over everything but the channels, in a fixed order and without atomics: the way through a tensor
// that normalisations and biases share.
//
// A block has a few channels and a part of what there is of them. It writes its sums, and whoever needs them
// adds up those of all parts itself: that takes less time than a kernel of its own would.

#include <algorithm>
#include <cstdint>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/ceil_div.h"
#include "kernels/runs.cuh"
#include "kernels/sum_dtype.h"

namespace adaact::channels {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kMostChannels = 64;  // of a block
/// Elements that a thread reads at once. Not 16 bytes of narrow ones: the scalars of eight channels would not leave
/// enough registers for loads under way.
template <typename Scalar>
constexpr int kRun = sizeof(Scalar) == 8 ? 2 : 4;
/// Two values are summed for every channel, but where squares are summed on the way.
constexpr int kSums = 2;

/// Elements of a tensor, channels last: rows of channels, `leading` apart. Otherwise images, so far apart.
template <typename Scalar>
struct Values {
  Scalar* data = nullptr;  // null: there is no such tensor
  std::int64_t leading = 0;
};

/// What a kernel goes through and how blocks share it.
struct Extent {
  std::int64_t channels = 0;
  std::int64_t count = 0;  // of runs that a channel, or a run of channels, has
  std::int64_t inner = 0;  // of these, in one image; not used channels last
  std::int64_t part = 0;   // runs of a block
  int parts = 0;           // blocks that share channels
  int lanes = 0;           // threads side by side in a row: a power of two, at most a warp
  int blocks_of_channels = 0;

  dim3 grid() const {
    return {static_cast<unsigned>(blocks_of_channels), static_cast<unsigned>(parts)};
  }
};

/// Channels last: a thread stays with kWidth channels and goes down the rows. Otherwise a block has one
/// channel, and a thread kWidth of its neighbouring elements at a time.
template <bool kChannelsLast, int kWidth>
struct Walk {
  static constexpr int kChannels = kChannelsLast ? kWidth : 1;  // of a thread

  int local = 0;  // the thread's first channel within the block
  std::int64_t channel = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  int step = 0;

  __device__ explicit Walk(const Extent& extent) {
    const auto begin = blockIdx.y * extent.part;
    last = begin + extent.part < extent.count ? begin + extent.part : extent.count;
    if constexpr (kChannelsLast) {
      local = static_cast<int>(threadIdx.x % extent.lanes) * kWidth;
      channel = static_cast<std::int64_t>(blockIdx.x) * extent.lanes * kWidth + local;
      step = kThreads / extent.lanes;
      first = begin + threadIdx.x / extent.lanes;
      if (channel >= extent.channels)
        last = first;  // beyond the last channel there is nothing to do
    } else {
      channel = blockIdx.x;
      step = kThreads;
      first = begin + threadIdx.x;
    }
  }

  template <typename Scalar>
  __device__ Scalar* at(const Values<Scalar>& values, const Extent& extent, std::int64_t i) const {
    if constexpr (kChannelsLast) {
      return values.data + i * values.leading + channel;
    } else {
      const auto position = static_cast<unsigned>(i);
      const auto inner = static_cast<unsigned>(extent.inner);
      return values.data + position / inner * values.leading +
             (channel * extent.inner + position % inner) * kWidth;
    }
  }

  /// Channels of this block.
  __device__ static int of_block(const Extent& extent) {
    return kChannelsLast ? extent.lanes * kWidth : 1;
  }
};

/// Calls load(turn, i) for up to kTurns runs from `first` on and then, after prepare(), use(turn, i) for each of them: so
/// many loads are under way at the same time.
template <int kTurns, typename Way, typename Load, typename Prepare, typename Use>
__device__ void for_some_runs_of(const Way& way, std::int64_t first, const Load& load,
                                 const Prepare& prepare, const Use& use) {
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    if (first + turn * way.step < way.last) load(turn, first + turn * way.step);
  }
  prepare();
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    if (first + turn * way.step < way.last) use(turn, first + turn * way.step);
  }
}

/// Goes on as for_some_runs_of() does, until all of the thread's runs are done.
template <int kTurns, typename Way, typename Load, typename Use>
__device__ void for_each_run_from(const Way& way, std::int64_t first, const Load& load,
                                  const Use& use) {
  for (auto i = first; i < way.last; i += kTurns * way.step) {
    for_some_runs_of<kTurns>(
        way, i, load, [] {}, use);
  }
}

/// Writes the sums of a block's threads to its row of `partials`, (kCount, parts, channels).
template <bool kChannelsLast, int kWidth, int kCount, typename Sum>
__device__ void write_partial_sums(const Walk<kChannelsLast, kWidth>& way, const Extent& extent,
                                   Sum (&sums)[kCount][Walk<kChannelsLast, kWidth>::kChannels],
                                   Sum* partials) {
  constexpr int kOwn = Walk<kChannelsLast, kWidth>::kChannels;
  __shared__ Sum of_warp[kCount][kWarps][kMostChannels];
  const int lanes = kChannelsLast ? extent.lanes : 1;
#pragma unroll
  for (int sum = 0; sum < kCount; ++sum) {
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      auto value = sums[sum][k];
      for (int apart = 16; apart >= lanes; apart /= 2) {
        value += __shfl_down_sync(0xffffffffU, value, apart);
      }
      if (threadIdx.x % 32 < lanes) of_warp[sum][threadIdx.x / 32][way.local + k] = value;
    }
  }
  __syncthreads();
  const int width = way.of_block(extent);
  for (int i = threadIdx.x; i < kCount * width; i += kThreads) {
    const int sum = i / width;
    const auto channel = static_cast<std::int64_t>(blockIdx.x) * width + i % width;
    if (channel >= extent.channels) continue;
    Sum total = 0;
    for (int warp = 0; warp < kWarps; ++warp) total += of_warp[sum][warp][i % width];
    partials[(static_cast<std::int64_t>(sum) * extent.parts + blockIdx.y) * extent.channels +
             channel] = total;
  }
}

/// The sums of all parts, in shared memory, for `width` channels from `begin` on: totals[sum][channel].
template <typename Sum>
__device__ void add_partial_sums(const Sum* partials, int parts, std::int64_t channels,
                                 std::int64_t begin, int width,
                                 double (&totals)[kSums][kMostChannels]) {
  __shared__ double of_group[kThreads];
  const int pairs = kSums * width;
  const int groups = kThreads / pairs;
  const int group = threadIdx.x / pairs;
  const int sum = threadIdx.x % pairs / width;
  const auto channel = begin + threadIdx.x % width;
  double total = 0.0;
  if (group < groups && channel < channels) {
    const auto* from = partials + static_cast<std::int64_t>(sum) * parts * channels + channel;
#pragma unroll 8
    for (int part = group; part < parts; part += groups) total += from[part * channels];
  }
  of_group[threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.x < pairs) {
    total = 0.0;
    for (int i = threadIdx.x; i < groups * pairs; i += pairs) total += of_group[i];
    totals[sum][threadIdx.x % width] = total;
  }
  __syncthreads();
}

/// How many threads side by side have at most so many channels.
inline int lanes_for(std::int64_t channels, int width, int most_channels) {
  int lanes = 1;
  while (lanes < 32 && lanes * width < most_channels && lanes * width < channels) lanes *= 2;
  return lanes;
}

struct Shape {
  std::int64_t images = 0;
  std::int64_t channels = 0;
  std::int64_t pixels = 0;
  bool channels_last = false;
};

/// `turns`: runs of a thread below which another block would not pay.
inline Extent extent_of(const Shape& shape, int width, int most_channels, int most_parts,
                        int turns) {
  const int blocks =
      2 * at::cuda::getCurrentDeviceProperties()->multiProcessorCount;  // that run at a time
  Extent extent;
  extent.channels = shape.channels;
  std::int64_t rows_at_once = kThreads;
  if (shape.channels_last) {
    extent.lanes = lanes_for(shape.channels, width, most_channels);
    extent.count = shape.images * shape.pixels;
    extent.blocks_of_channels =
        static_cast<int>(ceil_div(shape.channels, std::int64_t{extent.lanes} * width));
    rows_at_once = kThreads / extent.lanes;
  } else {
    extent.lanes = 1;
    extent.inner = shape.pixels / width;
    extent.count = shape.images * extent.inner;
    extent.blocks_of_channels = static_cast<int>(shape.channels);
  }
  const auto useful = ceil_div(extent.count, rows_at_once * turns);
  const auto parts =
      std::min<std::int64_t>({useful, std::max(1, blocks / extent.blocks_of_channels), most_parts});
  extent.part = ceil_div(extent.count, parts);
  extent.parts = static_cast<int>(ceil_div(extent.count, extent.part));
  return extent;
}

/// For kernels that sum, which leave a row of partial sums for each part, and for those that begin by adding up such
/// rows.
inline Extent extent_of_sums(const Shape& shape, int width) {
  constexpr int kFewChannels = 32;
  constexpr std::int64_t kLarge = 1 << 26;  // elements: beyond what the L2 cache holds
  // The more parts, the longer everybody adds them up; the wider the rows, the better memory is read.
  const bool is_narrow = shape.channels_last && shape.channels <= kFewChannels;
  const bool is_large = shape.images * shape.pixels * shape.channels >= kLarge;
  return extent_of(shape, width, is_large ? kMostChannels : kFewChannels,
                   is_narrow || is_large ? 128 : 64, /*turns=*/4);
}
inline Extent extent_of_elements(const Shape& shape, int width) {
  return extent_of(shape, width, kMostChannels, 1 << 15, /*turns=*/4);
}

/// Waits for the kernel before, in one that launch_dependent() started while that still ran.
__device__ inline void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel start, as far as there is room for it, if it was launched by launch_dependent().
__device__ inline void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// Launches a kernel that may start while the one before still runs: it has to wait_for_kernel_before() before it
/// reads what that one writes, or writes anything. Its start, and loads that need not wait, then take no time of their
/// own. The one before is launched as usual, so that what came before both is there.
template <typename Pass>
void launch_dependent(void (*kernel)(Pass, Extent), const Pass& pass, const Extent& extent) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = extent.grid();
  config.blockDim = dim3(kThreads);
  config.stream = c10::cuda::getCurrentCUDAStream();
  config.attrs = &early;
  config.numAttrs = at::cuda::getCurrentDeviceProperties()->major >= 9 ? 1 : 0;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, pass, extent));
}

}  // namespace adaact::channels
