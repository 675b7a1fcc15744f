// Sums of squares in the windows of 3×3 kernels, from sums T over all pixels and the border of the images:
//
//   V[c, i, j] = T[c] − Σ x² over the row and the column of the border that offset (i, j) never sees
//
//   border squares   Σ x² of each of the eight sides: four edges without their ends, four corners
//   window squares   T from its parts, and from it what is not seen
//
// A block of the first has some channels of some images. Its row lanes share the border's pixels, side after side, in
// equal runs; a lane whose run reaches from one side into the next has a sum for each. The order of the additions is
// fixed by the layer alone.

#include "moments/border_squares_cuda.h"

#include <algorithm>
#include <cstdint>

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/ceil_div.h"
#include "kernels/many_tensors.cuh"
#include "kernels/sum_dtype.h"

namespace adaact {
namespace {

constexpr int kThreads = 256;
constexpr int kVectorBytes = 16;
/// Loads that a thread has in flight.
constexpr int kPixelBatch = 8;
/// The most threads side by side along the channels: 512 bytes of a pixel.
constexpr int kMostChannelLanesLog2 = 5;
constexpr int kMostChannelLanes = 1 << kMostChannelLanesLog2;

/// Pixels that a thread reads. Fewer where a layer would have only a few blocks, more where it has many anyway; the
/// last bound is for the accuracy of the sum of one thread.
constexpr std::int64_t kLanePixels = 2 * kPixelBatch;
constexpr std::int64_t kFewChunks = 16;
constexpr std::int64_t kFewChunksLanePixels = kPixelBatch;
constexpr std::int64_t kManyChunks = 128;
constexpr std::int64_t kMostLanePixels = 128;
/// What a layer has in a buffer begins at a multiple of this many numbers.
constexpr std::int64_t kAlignment = 32;
/// Items of small launches, which take less than 4 kB of parameters.
constexpr int kFewPieces = 56;
constexpr int kFewLayers = 64;

/// The sides of the border: top, bottom, left, right, then the corners top left, top right, bottom left, bottom right.
constexpr int kSides = 8;
/// Which sides lie in the first and the last row, the first and the last column; bit s is side s.
constexpr unsigned kTop = 0b00110001;
constexpr unsigned kBottom = 0b11000010;
constexpr unsigned kLeft = 0b01010100;
constexpr unsigned kRight = 0b10101000;

constexpr int kKernel = 3;
constexpr int kOffsets = kKernel * kKernel;

/// A block of the second launch has a warp of channels, and warps that share what is to be added up for them.
constexpr int kSliceChannels = 32;
constexpr int kSliceWarps = 2 * kSides;
constexpr int kSliceThreads = kSliceChannels * kSliceWarps;
constexpr int kRowBatch = 8;

template <typename Scalar>
constexpr int kVector = kVectorBytes / static_cast<int>(sizeof(Scalar));

/// Where the pixels of a side lie in an image, in elements.
struct Side {
  std::int64_t first;
  std::int64_t step;
  int length;
};

__device__ inline int length_of(int side, const BorderPiece& piece) {
  if (side >= 4) return 1;
  return (side < 2 ? piece.width : piece.height) - 2;
}

__device__ inline Side side_of(int side, const BorderPiece& piece) {
  const bool is_last_row = (kBottom >> side & 1U) != 0;
  const bool is_last_column = (kRight >> side & 1U) != 0;
  const bool is_vertical = side == 2 || side == 3;
  const std::int64_t row = is_vertical ? 1 : is_last_row ? piece.height - 1 : 0;
  const std::int64_t column = side < 2 ? 1 : is_last_column ? piece.width - 1 : 0;
  return {(row * piece.width + column) * piece.channels,
          (is_vertical ? piece.width : 1) * piece.channels, length_of(side, piece)};
}

/// The thread's channels of one pixel, `channels` of them; zeros beyond.
template <typename Scalar, bool kVectorised>
__device__ inline uint4 load_pixel(const Scalar* at, int channels) {
  if constexpr (kVectorised) {
    return __ldg(reinterpret_cast<const uint4*>(at));
  } else {
    alignas(kVectorBytes) Scalar values[kVector<Scalar>];
#pragma unroll
    for (int e = 0; e < kVector<Scalar>; ++e) {
      values[e] = e < channels ? at[e] : static_cast<Scalar>(0.0f);
    }
    return *reinterpret_cast<const uint4*>(values);
  }
}

template <typename Scalar>
__device__ inline void add_squares(const uint4& bits, SumOf<Scalar> (&sums)[kVector<Scalar>]) {
  alignas(kVectorBytes) Scalar values[kVector<Scalar>];
  *reinterpret_cast<uint4*>(values) = bits;
#pragma unroll
  for (int e = 0; e < kVector<Scalar>; ++e) {
    const auto a = static_cast<SumOf<Scalar>>(values[e]);
    sums[e] += a * a;
  }
}

/// Pixels first … first + count − 1 of a side, counted through the images. `images` is at the thread's channels.
template <typename Scalar, bool kVectorised>
__device__ inline void add_pixels(const Scalar* images, std::int64_t image_size, const Side& side,
                                  int first, int count, int channels,
                                  SumOf<Scalar> (&sums)[kVector<Scalar>]) {
  constexpr int kBatch = kVectorised ? kPixelBatch : 1;
  const int image = first / side.length;
  int position = first - image * side.length;
  const Scalar* at = images + image * image_size + side.first + position * side.step;
  const std::int64_t to_next_image = image_size - side.length * side.step;
#pragma unroll 1
  for (; count > 0; count -= kBatch) {
    uint4 loaded[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      loaded[k] =
          k < count ? load_pixel<Scalar, kVectorised>(at, channels) : make_uint4(0, 0, 0, 0);
      at += side.step;
      if (++position == side.length) {
        position = 0;
        at += to_next_image;
      }
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) add_squares<Scalar>(loaded[k], sums);
  }
}

/// What a block of the first launch has.
struct BorderTile {
  std::int64_t first_channel;
  int channels;  // that its threads cover, of which not all need exist
  int images;
  int run;  // pixels of a row lane
};

/// A row lane's sums, one for each side that its run touches. Lane l keeps that of side s in slot l + s: the next lane
/// begins on the side where this one ends or on a later one, so no two have the same slot.
template <typename Scalar, bool kVectorised>
__device__ inline void sum_run(const Scalar* images, const BorderPiece& piece,
                               const BorderTile& tile, int row_lane, int channels,
                               SumOf<Scalar>* slots) {
  const std::int64_t image_size = std::int64_t{piece.height} * piece.width * piece.channels;
  const int begin = row_lane * tile.run;
  int side_begin = 0;
#pragma unroll 1
  for (int s = 0; s < kSides; ++s) {
    const auto side = side_of(s, piece);
    const int side_end = side_begin + tile.images * side.length;
    const int first = max(begin, side_begin);
    const int count = min(begin + tile.run, side_end) - first;
    if (count > 0) {
      SumOf<Scalar> sums[kVector<Scalar>] = {};
      add_pixels<Scalar, kVectorised>(images, image_size, side, first - side_begin, count, channels,
                                      sums);
      auto* slot = slots + (row_lane + s) * tile.channels;
#pragma unroll
      for (int e = 0; e < kVector<Scalar>; ++e) slot[e] = sums[e];
    }
    side_begin = side_end;
  }
}

template <typename Scalar, typename List>
__global__ void __launch_bounds__(kThreads, 4)
    border_squares(const __grid_constant__ List list, SumOf<Scalar>* partial) {
  using Sum = SumOf<Scalar>;
  __shared__ alignas(kVectorBytes)
      Sum slots[(kThreads + (kSides - 1) * kMostChannelLanes) * kVector<Scalar>];

  const int index = many_tensors::owner_of(list, blockIdx.x);
  const BorderPiece& piece = list.items[index];
  const int local = static_cast<int>(blockIdx.x - list.first_block[index]);
  const int chunk = local / piece.slices;
  const int slice = local - chunk * piece.slices;

  const int thread = static_cast<int>(threadIdx.x);
  const int channel_lanes = 1 << piece.channel_lanes_log2;
  const int row_lanes = kThreads >> piece.channel_lanes_log2;
  const int row_lane = thread >> piece.channel_lanes_log2;
  const int column = (thread & (channel_lanes - 1)) * kVector<Scalar>;

  BorderTile tile;
  tile.channels = channel_lanes * kVector<Scalar>;
  tile.first_channel = std::int64_t{slice} * tile.channels;
  const std::int64_t first_image = std::int64_t{chunk} * piece.chunk_images;
  const std::int64_t images_left = piece.images - first_image;
  tile.images =
      images_left < piece.chunk_images ? static_cast<int>(images_left) : piece.chunk_images;
  const int border = 2 * (piece.height + piece.width - 2);
  tile.run = (tile.images * border + row_lanes - 1) / row_lanes;

  const std::int64_t channels_left = piece.channels - tile.first_channel - column;
  if (channels_left > 0) {
    const auto* images = static_cast<const Scalar*>(piece.input) +
                         first_image * piece.height * piece.width * piece.channels +
                         tile.first_channel + column;
    if (piece.vectorised) {
      sum_run<Scalar, true>(images, piece, tile, row_lane, kVector<Scalar>, slots + column);
    } else {
      const int channels =
          channels_left < kVector<Scalar> ? static_cast<int>(channels_left) : kVector<Scalar>;
      sum_run<Scalar, false>(images, piece, tile, row_lane, channels, slots + column);
    }
  }
  __syncthreads();

  Sum* out =
      partial + piece.partial + std::int64_t{chunk} * kSides * piece.channels + tile.first_channel;
  for (int output = thread; output < kSides * tile.channels; output += kThreads) {
    const int s = output / tile.channels;
    const int channel = output - s * tile.channels;
    if (tile.first_channel + channel >= piece.channels) continue;
    int side_begin = 0;
    for (int before = 0; before < s; ++before) side_begin += length_of(before, piece);
    side_begin *= tile.images;
    const int side_end = side_begin + tile.images * length_of(s, piece);
    double sum = 0.0;
    if (side_begin < side_end) {
      const int last_lane = (side_end - 1) / tile.run;
      for (int lane = side_begin / tile.run; lane <= last_lane; ++lane) {
        sum += slots[(lane + s) * tile.channels + channel];
      }
    }
    out[s * piece.channels + channel] = static_cast<Sum>(sum);
  }
}

/// Σ of rows first, first + step, … of a matrix, of the column at `at`.
template <typename Sum>
__device__ inline double column_sum(const Sum* at, std::int64_t row_size, std::int64_t rows,
                                    int first, int step) {
  double total = 0.0;
#pragma unroll 1
  for (std::int64_t row = first; row < rows; row += kRowBatch * step) {
    Sum loaded[kRowBatch];
#pragma unroll
    for (int k = 0; k < kRowBatch; ++k) {
      const std::int64_t of = row + k * step;
      loaded[k] = of < rows ? __ldg(at + of * row_size) : Sum(0);
    }
#pragma unroll
    for (int k = 0; k < kRowBatch; ++k) total += loaded[k];
  }
  return total;
}

/// A block has 32 channels of a layer; a warp has a share of T and half of the parts of one side.
template <typename Sum, typename List>
__global__ void __launch_bounds__(kSliceThreads)
    window_squares(const __grid_constant__ List list, const Sum* __restrict__ partial,
                   Sum* __restrict__ result) {
  __shared__ double totals[kSliceWarps][kSliceChannels];
  __shared__ double halves[kSliceWarps][kSliceChannels];

  const int index = many_tensors::owner_of(list, blockIdx.x);
  const BorderLayer& layer = list.items[index];
  const std::int64_t first_channel =
      std::int64_t{blockIdx.x - list.first_block[index]} * kSliceChannels;
  const std::int64_t channels_left = layer.channels - first_channel;
  const int channels =
      channels_left < kSliceChannels ? static_cast<int>(channels_left) : kSliceChannels;
  const int lane = static_cast<int>(threadIdx.x) % kSliceChannels;
  const int warp = static_cast<int>(threadIdx.x) / kSliceChannels;

  if (lane < channels) {
    const std::int64_t channel = first_channel + lane;
    totals[warp][lane] = column_sum(static_cast<const Sum*>(layer.totals) + channel, layer.channels,
                                    layer.total_rows, warp, kSliceWarps);
    const int side = warp % kSides;
    halves[warp][lane] =
        column_sum(partial + layer.partial + side * layer.channels + channel,
                   kSides * layer.channels, layer.chunks, warp / kSides, kSliceWarps / kSides);
  }
  __syncthreads();

  if (warp == 0 && lane < channels) {
    double total = totals[0][lane];
    for (int w = 1; w < kSliceWarps; ++w) total += totals[w][lane];
    totals[0][lane] = total;
  } else if (warp > 0 && warp <= kSides && lane < channels) {
    halves[warp - 1][lane] += halves[warp - 1 + kSides][lane];
  }
  __syncthreads();

  for (int output = static_cast<int>(threadIdx.x); output < channels * kOffsets;
       output += kSliceThreads) {
    const int column = output / kOffsets;
    const int offset = output - column * kOffsets;
    const int i = offset / kKernel;
    const int j = offset - i * kKernel;
    const unsigned unseen = (i == 0   ? kBottom
                             : i == 2 ? kTop
                                      : 0U) |
                            (j == 0   ? kRight
                             : j == 2 ? kLeft
                                      : 0U);
    double left_out = 0.0;
#pragma unroll
    for (int s = 0; s < kSides; ++s) {
      if ((unseen >> s & 1U) != 0) left_out += halves[s][column];
    }
    // Rounding may leave less than nothing where all that is not zero lies on the border.
    const double seen = totals[0][column] - left_out;
    result[layer.result + first_channel * kOffsets + output] =
        static_cast<Sum>(seen < 0.0 ? 0.0 : seen);
  }
}

/// As many threads along the channels as there are 16 bytes, unless a third of them or more would be idle.
int channel_lanes_log2_of(std::int64_t vectors) {
  int log2 = kMostChannelLanesLog2;
  while (log2 > 0 && 3 * vectors < 2 * (ceil_div(vectors, 1 << log2) << log2)) --log2;
  return log2;
}

std::int64_t chunk_images_of(const torch::Tensor& x, std::int64_t row_lanes) {
  const auto images = x.size(0);
  const auto border = 2 * (x.size(2) + x.size(3) - 2);
  const auto pixels = images * border;
  auto lane_pixels = kFewChunksLanePixels;
  if (pixels >= kFewChunks * row_lanes * kLanePixels) {
    lane_pixels =
        std::clamp(ceil_div(pixels, kManyChunks * row_lanes), kLanePixels, kMostLanePixels);
  }
  const auto most_images = std::clamp<std::int64_t>(lane_pixels * row_lanes / border, 1, images);
  return ceil_div(images, ceil_div(images, most_images));
}

std::int64_t aligned(std::int64_t numbers) { return ceil_div(numbers, kAlignment) * kAlignment; }

}  // namespace

std::int64_t BorderSquares::add(const torch::Tensor& x, const torch::Tensor& totals) {
  const auto vector = kVectorBytes / static_cast<std::int64_t>(x.element_size());
  BorderPiece piece{};
  piece.input = x.data_ptr();
  piece.images = x.size(0);
  piece.channels = x.size(1);
  piece.height = static_cast<int>(x.size(2));
  piece.width = static_cast<int>(x.size(3));
  piece.partial = partial_size_;
  const auto vectors = ceil_div(piece.channels, vector);
  piece.channel_lanes_log2 = channel_lanes_log2_of(vectors);
  piece.slices = static_cast<int>(ceil_div(vectors, 1 << piece.channel_lanes_log2));
  piece.chunk_images = static_cast<int>(chunk_images_of(x, kThreads >> piece.channel_lanes_log2));
  piece.vectorised = piece.channels % vector == 0 &&
                     reinterpret_cast<std::uintptr_t>(piece.input) % kVectorBytes == 0;
  const auto chunks = ceil_div(piece.images, piece.chunk_images);
  piece.blocks = static_cast<int>(chunks * piece.slices);
  pieces_[x.scalar_type()].push_back(piece);

  BorderLayer layer{};
  layer.totals = totals.data_ptr();
  layer.total_rows = totals.size(0);
  layer.channels = piece.channels;
  layer.partial = piece.partial;
  layer.result = size_;
  layer.chunks = chunks;
  layer.blocks = static_cast<int>(ceil_div(layer.channels, kSliceChannels));
  layers_.push_back(layer);

  partial_size_ += aligned(chunks * kSides * piece.channels);
  size_ += aligned(piece.channels * kOffsets);
  return layer.result;
}

void BorderSquares::launch(const torch::Tensor& partial, const torch::Tensor& result) const {
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const auto blocks_of = [](const auto& item) { return item.blocks; };
  for (const auto& dtype_and_pieces : pieces_) {
    const auto& pieces = dtype_and_pieces.second;
    AT_DISPATCH_FLOATING_TYPES_AND2(
        torch::kHalf, torch::kBFloat16, dtype_and_pieces.first, "border_squares", [&] {
          auto* sums = partial.data_ptr<SumOf<scalar_t>>();
          const auto launch = [&](const auto& list, unsigned blocks) {
            border_squares<scalar_t><<<blocks, kThreads, 0, stream>>>(list, sums);
            C10_CUDA_KERNEL_LAUNCH_CHECK();
          };
          many_tensors::launch_lists<kFewPieces>(pieces, blocks_of, launch);
        });
  }
  AT_DISPATCH_FLOATING_TYPES(result.scalar_type(), "window_squares", [&] {
    const auto* from = partial.data_ptr<scalar_t>();
    auto* to = result.data_ptr<scalar_t>();
    const auto launch = [&](const auto& list, unsigned blocks) {
      window_squares<scalar_t><<<blocks, kSliceThreads, 0, stream>>>(list, from, to);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    };
    many_tensors::launch_lists<kFewLayers>(layers_, blocks_of, launch);
  });
}

}  // namespace adaact
