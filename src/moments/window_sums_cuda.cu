// Window sums of many layers in one launch, from S = Σ_b x² in parts:
//
//   V[c, k, i, j] = Σ_{d, h, w} S[c, d, h, w]   over the positions that offset (k, i, j) visits
//
// A block computes V[slice of c, k, i, all j]: it sums S over d and h for every w, a tile of w at a
// time in shared memory, and from there over w for every j. Fewer dimensions are dimensions of
// size 1. A linear layer is a 1×1 convolution whose positions are the parts. The order of the
// additions is fixed by the layer alone.

#include "moments/window_sums_cuda.h"

#include <algorithm>
#include <cstdint>

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/ceil_div.h"
#include "kernels/many_tensors.cuh"

namespace adaact {
namespace {

constexpr int kThreads = 512;
/// Loads that a thread has in flight: a power of two, as many as there are registers for.
template <typename Sum>
constexpr int kBatch = 32 / static_cast<int>(sizeof(Sum));
/// Channels of a convolution in a block: a sector of memory where channels are neighbours.
constexpr std::int64_t kSliceChannels = 8;
/// Parts of a linear layer that one thread sums, and the fewest columns of a block.
constexpr std::int64_t kPartsPerThread = 16;
constexpr std::int64_t kMinColumns = 32;
/// Far from where sums and differences of a few of a layer's numbers would leave 32 bits.
constexpr std::int64_t kMaxNumber = std::int64_t{1} << 28;
/// The sums of a layer begin at a multiple of this many numbers.
constexpr std::int64_t kAlignment = 32;
/// Layers of a small launch, which takes less than 4 kB of parameters: those of a ResNet-20.
constexpr int kFewLayers = 22;

/// Positions first, first + stride, … inside the input.
struct Run {
  int first;
  int count;
};

/// Most strides and pass counts are 1, and a division takes as long as a load from the cache.
__device__ inline int quotient(int a, int b) { return b == 1 ? a : a / b; }
__device__ inline int quotient_up(int a, int b) { return quotient(a + b - 1, b); }

__device__ inline Run visited(const WindowAxis& axis, int offset) {
  const int start = offset * axis.dilation - axis.padding;
  const int in_padding = start < 0 ? quotient_up(-start, axis.stride) : 0;
  const int before_end = start < axis.size ? quotient_up(axis.size - start, axis.stride) : 0;
  const int count = min(before_end, axis.outputs) - in_padding;
  return {start + in_padding * axis.stride, max(count, 0)};
}

template <typename Sum>
__device__ inline Sum tree_sum(Sum (&values)[kBatch<Sum>]) {
#pragma unroll
  for (int half = kBatch<Sum> / 2; half > 0; half /= 2) {
#pragma unroll
    for (int k = 0; k < half; ++k) values[k] += values[k + half];
  }
  return values[0];
}

template <typename Sum>
__device__ inline double strided_sum(const Sum* at, std::int64_t step, int count) {
  double total = 0.0;
  Sum loaded[kBatch<Sum>];
#pragma unroll 1
  for (; count >= kBatch<Sum>; count -= kBatch<Sum>) {
#pragma unroll
    for (int k = 0; k < kBatch<Sum>; ++k) {
      loaded[k] = __ldg(at);
      at += step;
    }
    total += tree_sum(loaded);
  }
  if (count <= 0) return total;
#pragma unroll
  for (int k = 0; k < kBatch<Sum>; ++k) {
    loaded[k] = k < count ? __ldg(at) : Sum(0);
    at += step;
  }
  return total + tree_sum(loaded);
}

/// What a block of threads computes.
struct Slice {
  std::int64_t first_channel;
  int channels;
  Run depth;
  Run height;
};

/// Columns of S (one channel and one w) that a block holds: some w of each of its channels.
struct Tile {
  int first;
  int width;
  int channels;
  bool channels_last;

  __device__ int columns() const { return width * channels; }
  __device__ int channel(int column) const {
    return channels_last ? column % channels : column / width;
  }
  __device__ int position(int column) const {
    return first + (channels_last ? column / channels : column % width);
  }
  __device__ int column(int channel, int position) const {
    return channels_last ? (position - first) * channels + channel
                         : channel * width + (position - first);
  }
};

/// Fills sums[0 … columns of the tile) with Σ_{d, h} S; all threads of the block take part.
template <typename Sum>
__device__ inline void sum_columns(const Sum* partial, const WindowLayer& layer, const Slice& slice,
                                   const Tile& tile, double* sums) {
  const int thread = static_cast<int>(threadIdx.x);
  const int columns = tile.columns();
  const int lanes = kThreads / columns;  // threads that share a column
  const int lane = thread / columns;
  const int column = thread - lane * columns;
  double total = 0.0;
  if (lane < lanes) {
    const WindowAxis& deep = layer.axes[0];
    const WindowAxis& high = layer.axes[1];
    const std::int64_t row_step = high.step * high.stride;
    const int rows = (slice.height.count - lane + lanes - 1) / lanes;
    const Sum* rows_of_layer =
        layer.rows != nullptr ? static_cast<const Sum*>(layer.rows) : partial + layer.partial;
    const Sum* first = rows_of_layer +
                       (slice.first_channel + tile.channel(column)) * layer.channel_step +
                       tile.position(column) * layer.axes[2].step + slice.height.first * high.step +
                       lane * row_step;
    for (std::int64_t part = 0; part < layer.partial_rows; ++part) {
      const Sum* plane = first + part * layer.columns + slice.depth.first * deep.step;
      for (int d = 0; d < slice.depth.count; ++d) {
        total += strided_sum(plane, lanes * row_step, rows);
        plane += deep.step * deep.stride;
      }
    }
  }
  sums[thread] = total;
  __syncthreads();
  if (thread < columns) {
#pragma unroll 4
    for (int l = 1; l < lanes; ++l) total += sums[l * columns + thread];
    sums[thread] = total;
  }
  __syncthreads();
}

template <typename Sum, typename List>
__global__ void __launch_bounds__(kThreads, 2)
    sum_windows(const __grid_constant__ List list, const Sum* __restrict__ partial,
                Sum* __restrict__ result) {
  __shared__ double sums[kThreads];
  const int index = many_tensors::owner_of(list, blockIdx.x);
  const WindowLayer& layer = list.items[index];
  const WindowAxis& wide = layer.axes[2];
  const int local = static_cast<int>(blockIdx.x - list.first_block[index]);
  const int slice_and_offset = quotient(local, layer.passes);
  const int pass = local - slice_and_offset * layer.passes;
  const int offset = slice_and_offset / layer.slices;  // in the two outer dimensions
  const int slice_index = slice_and_offset - offset * layer.slices;

  Slice slice;
  slice.first_channel = std::int64_t{slice_index} * layer.slice_channels;
  slice.channels = static_cast<int>(layer.channels - slice.first_channel < layer.slice_channels
                                        ? layer.channels - slice.first_channel
                                        : layer.slice_channels);
  const int depth_offset = offset / layer.axes[1].kernel;
  slice.depth = visited(layer.axes[0], depth_offset);
  slice.height = visited(layer.axes[1], offset - depth_offset * layer.axes[1].kernel);

  // An output (j, channel) for each thread, or several threads for each where there are few.
  const int thread = static_cast<int>(threadIdx.x);
  const int first_output = pass * kThreads;
  const int outputs = min(kThreads, wide.kernel * slice.channels - first_output);
  if (outputs <= 0) return;  // the last slice has fewer channels
  const int lanes = kThreads / outputs;
  const int lane = thread / outputs;
  const int output = first_output + thread - lane * outputs;
  const int j = output / slice.channels;
  const int channel = output - j * slice.channels;
  const Run width = visited(wide, j);

  double total = 0.0;
  for (int begin = 0; begin < wide.size; begin += layer.tile_width) {
    const Tile tile{begin, min(layer.tile_width, wide.size - begin), slice.channels,
                    layer.channels_last != 0};
    sum_columns(partial, layer, slice, tile, sums);
    if (lane < lanes) {
      const int skipped = begin > width.first ? quotient_up(begin - width.first, wide.stride) : 0;
      const int reach = begin + tile.width - width.first;
      const int end = min(width.count, reach > 0 ? quotient_up(reach, wide.stride) : 0);
      for (int m = skipped + lane; m < end; m += lanes) {
        total += sums[tile.column(channel, width.first + m * wide.stride)];
      }
    }
    __syncthreads();
  }

  sums[thread] = total;
  __syncthreads();
  if (thread < outputs) {
#pragma unroll 4
    for (int l = 1; l < lanes; ++l) total += sums[l * outputs + thread];
    const std::int64_t row =
        (slice.first_channel + channel) * (layer.axes[0].kernel * layer.axes[1].kernel) + offset;
    result[layer.result + row * wide.kernel + j] = static_cast<Sum>(total);
  }
}

WindowAxis all_of(std::int64_t size, std::int64_t step) {
  return {step, static_cast<int>(size), 1, 1, 0, 1, static_cast<int>(size)};
}

WindowAxis axis_of(const torch::Tensor& x, const Geometry& geometry, std::size_t d) {
  const auto dim = static_cast<std::int64_t>(d);
  const auto size = x.size(dim + 2);
  return {x.stride(dim + 2),
          static_cast<int>(size),
          static_cast<int>(geometry.kernel[d]),
          static_cast<int>(geometry.stride[d]),
          static_cast<int>(geometry.padding_before[d]),
          static_cast<int>(geometry.dilation[d]),
          static_cast<int>(geometry.output_size(dim, size))};
}

/// How a convolution's channels and positions are shared among blocks and threads.
void set_axes(WindowLayer& layer, const torch::Tensor& x, const Geometry& geometry) {
  for (auto& axis : layer.axes) axis = all_of(1, 0);
  const auto dims = geometry.kernel.size();
  // A single dimension goes where threads share a sum: a signal is longer than an image is wide.
  const std::size_t first_axis = dims == 3 ? 0 : 1;
  for (std::size_t d = 0; d < dims; ++d) layer.axes[first_axis + d] = axis_of(x, geometry, d);
  layer.slice_channels = static_cast<int>(std::min(kSliceChannels, layer.channels));
  layer.tile_width = std::min(layer.axes[2].size, kThreads / layer.slice_channels);
  layer.channels_last = layer.channel_step < layer.axes[2].step || layer.axes[2].size == 1;
}

void set_linear_axes(WindowLayer& layer) {
  for (auto& axis : layer.axes) axis = all_of(1, 0);
  layer.axes[1] = all_of(layer.partial_rows, layer.columns);
  const auto columns = std::clamp<std::int64_t>(
      kThreads * kPartsPerThread / layer.partial_rows / kMinColumns * kMinColumns, kMinColumns,
      kThreads);
  layer.partial_rows = 1;
  layer.slice_channels = static_cast<int>(std::min(columns, layer.channels));
  layer.tile_width = 1;
  layer.channels_last = 1;
}

}  // namespace

bool WindowSums::can_add(const torch::Tensor& x, const Geometry& geometry) {
  const auto in_range = [](std::int64_t number) { return number >= 0 && number <= kMaxNumber; };
  bool all = in_range(x.size(1));
  std::int64_t blocks = x.size(1);  // at most
  for (std::size_t d = 0; all && d < geometry.kernel.size(); ++d) {
    all = in_range(x.size(static_cast<std::int64_t>(d) + 2)) && in_range(geometry.kernel[d]) &&
          in_range(geometry.stride[d]) && in_range(geometry.padding_before[d]) &&
          in_range(geometry.padding_after[d]) && in_range(geometry.dilation[d]) &&
          in_range(geometry.kernel[d] * geometry.dilation[d]) &&
          in_range(blocks *= geometry.kernel[d]);
  }
  return all;
}

std::int64_t WindowSums::add(const torch::Tensor& x, const Geometry& geometry,
                             const PartialSums& partial) {
  WindowLayer layer{};
  layer.partial = partial.offset;
  layer.partial_rows = partial.rows;
  layer.columns = x.numel() / x.size(0);
  layer.channels = x.size(1);
  layer.channel_step = x.stride(1);
  if (geometry.is_linear()) {
    set_linear_axes(layer);
  } else {
    set_axes(layer, x, geometry);
  }
  return add_layer(layer, geometry.groups * geometry.features(x));
}

std::int64_t WindowSums::add_rows(const torch::Tensor& rows) {
  WindowLayer layer{};
  layer.rows = rows.data_ptr();
  layer.partial_rows = rows.size(0);
  layer.columns = rows.size(1);
  layer.channels = rows.size(1);
  layer.channel_step = 1;
  set_linear_axes(layer);
  return add_layer(layer, layer.channels);
}

std::int64_t WindowSums::add_layer(WindowLayer layer, std::int64_t sums) {
  layer.result = size_;
  layer.slices = static_cast<int>(ceil_div(layer.channels, layer.slice_channels));
  layer.passes = static_cast<int>(ceil_div(layer.axes[2].kernel * layer.slice_channels, kThreads));
  layer.blocks = layer.passes * layer.slices * layer.axes[0].kernel * layer.axes[1].kernel;
  layers_.push_back(layer);
  size_ += ceil_div(sums, kAlignment) * kAlignment;
  return layer.result;
}

void WindowSums::launch(const torch::Tensor& partial, const torch::Tensor& result) const {
  const auto stream = c10::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES(result.scalar_type(), "window_sums", [&] {
    const auto* from = partial.data_ptr<scalar_t>();
    auto* to = result.data_ptr<scalar_t>();
    const auto blocks_of = [](const WindowLayer& layer) { return layer.blocks; };
    const auto launch = [&](const auto& list, unsigned blocks) {
      sum_windows<scalar_t><<<blocks, kThreads, 0, stream>>>(list, from, to);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    };
    many_tensors::launch_lists<kFewLayers>(layers_, blocks_of, launch);
  });
}

}  // namespace adaact
