// Column sums of squares of many matrices in one launch. A block reads a tile of rows and columns:
//
//   8 warps = column groups × row lanes; a warp reads 512 bytes of a row; the row lanes of a column
//   group take turns at the rows, and add up in shared memory at the end.
//
// The order of the additions is fixed by the matrix alone.

#include "moments/column_squares_cuda.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/ceil_div.h"
#include "kernels/many_tensors.cuh"
#include "kernels/sum_dtype.h"

namespace adaact {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 8;
constexpr int kThreads = kWarp * kWarps;
constexpr int kVectorBytes = 16;
/// Loads that a thread has in flight.
constexpr int kRowBatch = 8;

/// Rows of a tile. A tile of 128 rows of 512 bytes has float32 sums of 1.6 % of its size if it is
/// bfloat16. Less where a matrix would occupy only part of the GPU, more where it has many tiles
/// anyway; the last bound is for the accuracy of the sum of one thread.
constexpr std::int64_t kTileRows = 128;
constexpr std::int64_t kFewTiles = 64;
constexpr std::int64_t kFewTilesRows = 64;
constexpr std::int64_t kManyTiles = 4096;
constexpr std::int64_t kMaxTileRows = 1024;
/// Rows that must remain when several rows are read as one.
constexpr std::int64_t kMinFoldedRows = 64;
/// Partial sums of an input begin at a multiple of this many numbers.
constexpr std::int64_t kAlignment = 32;
/// Pieces of a small launch, which takes less than 4 kB of parameters.
constexpr int kFewPieces = 56;

template <typename Scalar>
constexpr int kVector = kVectorBytes / static_cast<int>(sizeof(Scalar));

/// The rows of a tile that one thread reads.
template <typename Scalar>
struct LaneRows {
  const Scalar* first;
  std::int64_t step;
  int count;
};

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

/// Element e of `sums` is column e of the thread's 16 bytes.
template <typename Scalar>
__device__ inline void add_vectors(LaneRows<Scalar> rows, SumOf<Scalar> (&sums)[kVector<Scalar>]) {
  uint4 loaded[kRowBatch];
  for (; rows.count >= kRowBatch; rows.count -= kRowBatch) {
#pragma unroll
    for (int k = 0; k < kRowBatch; ++k) {
      loaded[k] = __ldg(reinterpret_cast<const uint4*>(rows.first + k * rows.step));
    }
    rows.first += kRowBatch * rows.step;
#pragma unroll
    for (int k = 0; k < kRowBatch; ++k) add_squares<Scalar>(loaded[k], sums);
  }
  if (rows.count == 0) return;
#pragma unroll
  for (int k = 0; k < kRowBatch; ++k) {
    loaded[k] = k < rows.count ? __ldg(reinterpret_cast<const uint4*>(rows.first + k * rows.step))
                               : make_uint4(0, 0, 0, 0);
  }
#pragma unroll
  for (int k = 0; k < kRowBatch; ++k) add_squares<Scalar>(loaded[k], sums);
}

/// Element e of `sums` is the thread's column + 32·e, of which `columns` exist.
template <typename Scalar>
__device__ inline void add_scalars(LaneRows<Scalar> rows, std::int64_t columns,
                                   SumOf<Scalar> (&sums)[kVector<Scalar>]) {
  constexpr int kRows = 16 / kVector<Scalar>;
  for (; rows.count > 0; rows.count -= kRows) {
    Scalar loaded[kRows][kVector<Scalar>];
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
#pragma unroll
      for (int e = 0; e < kVector<Scalar>; ++e) {
        loaded[k][e] = k < rows.count && kWarp * e < columns ? rows.first[k * rows.step + kWarp * e]
                                                             : static_cast<Scalar>(0.0f);
      }
    }
    rows.first += kRows * rows.step;
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
#pragma unroll
      for (int e = 0; e < kVector<Scalar>; ++e) {
        const auto a = static_cast<SumOf<Scalar>>(loaded[k][e]);
        sums[e] += a * a;
      }
    }
  }
}

template <typename Scalar, typename List>
__global__ void __launch_bounds__(kThreads, 4)
    column_squares(const __grid_constant__ List list, SumOf<Scalar>* partial) {
  using Sum = SumOf<Scalar>;
  constexpr int kWarpColumns = kWarp * kVector<Scalar>;
  __shared__ alignas(kVectorBytes) Sum lane_sums[kWarps][kWarpColumns];

  const int index = many_tensors::owner_of(list, blockIdx.x);
  const SquaresPiece& piece = list.items[index];
  const int tile = static_cast<int>(blockIdx.x - list.first_block[index]);
  const int chunk = tile / piece.column_tiles;
  const int column_tile = tile - chunk * piece.column_tiles;

  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row_lanes = 1 << piece.row_lanes_log2;
  const int row_lane = warp & (row_lanes - 1);
  const int group = warp >> piece.row_lanes_log2;
  const int groups = kWarps >> piece.row_lanes_log2;
  const std::int64_t first_column = (std::int64_t{column_tile} * groups + group) * kWarpColumns;
  const std::int64_t first_row = std::int64_t{chunk} * piece.chunk_rows;
  const std::int64_t rows_left = piece.rows - first_row;
  const int rows = rows_left < piece.chunk_rows ? static_cast<int>(rows_left) : piece.chunk_rows;

  LaneRows<Scalar> mine;
  mine.step = piece.row_stride << piece.row_lanes_log2;
  mine.count = (rows - row_lane + row_lanes - 1) >> piece.row_lanes_log2;
  mine.first = static_cast<const Scalar*>(piece.input) + (first_row + row_lane) * piece.row_stride +
               first_column;
  Sum sums[kVector<Scalar>] = {};
  if (piece.vectorised) {
    const int column = lane * kVector<Scalar>;
    mine.first += column;
    if (first_column + column < piece.width) add_vectors<Scalar>(mine, sums);
#pragma unroll
    for (int e = 0; e < kVector<Scalar>; ++e) lane_sums[warp][column + e] = sums[e];
  } else {
    mine.first += lane;
    add_scalars<Scalar>(mine, piece.width - first_column - lane, sums);
#pragma unroll
    for (int e = 0; e < kVector<Scalar>; ++e) lane_sums[warp][lane + kWarp * e] = sums[e];
  }
  __syncthreads();

  Sum* out = partial + piece.partial + chunk * piece.width + first_column;
  for (int column = row_lane * kWarp + lane; column < kWarpColumns; column += row_lanes * kWarp) {
    if (first_column + column >= piece.width) break;
    Sum sum = 0;
    for (int l = 0; l < row_lanes; ++l) sum += lane_sums[group * row_lanes + l][column];
    out[column] = sum;
  }
}

/// How many rows of a dense matrix to read as one, so that the warps are full and 16 bytes never
/// span two rows.
std::int64_t fold_of(std::int64_t rows, std::int64_t columns, std::int64_t vector) {
  const auto warp_columns = kWarp * vector;
  const auto covered = ceil_div(columns, warp_columns) * warp_columns;
  if (columns % vector == 0 && 5 * columns >= 4 * covered) return 1;
  for (const auto unit : {warp_columns, vector}) {
    const auto fold = unit / std::gcd(columns, unit);
    if (rows / fold >= kMinFoldedRows) return fold;
  }
  return 1;
}

std::int64_t tile_rows(std::int64_t rows, std::int64_t warp_tiles) {
  if (ceil_div(rows, kTileRows) * warp_tiles < kFewTiles) return kFewTilesRows;
  // Not rows · warp_tiles, which need not fit 64 bits.
  return std::clamp(ceil_div(rows, std::max<std::int64_t>(1, kManyTiles / warp_tiles)), kTileRows,
                    kMaxTileRows);
}

}  // namespace

PartialSums ColumnSquares::add(const torch::Tensor& x) {
  const auto rows = x.size(0);
  const auto columns = x.numel() / rows;
  const auto row_stride = rows == 1 ? columns : x.stride(0);
  const auto element = static_cast<std::int64_t>(x.element_size());
  const auto fold = row_stride == columns ? fold_of(rows, columns, kVectorBytes / element) : 1;

  PartialSums partial{size_, 0};
  SquaresPiece piece{};
  piece.input = x.data_ptr();
  piece.row_stride = fold * row_stride;
  piece.rows = rows / fold;
  piece.width = fold * columns;
  piece.partial = partial.offset;
  partial.rows = add_piece(x.scalar_type(), piece) * fold;
  if (const auto rest = rows % fold; rest > 0) {
    piece.input = static_cast<const char*>(piece.input) + (rows - rest) * row_stride * element;
    piece.row_stride = row_stride;
    piece.rows = rest;
    piece.width = columns;
    piece.partial = partial.offset + partial.rows * columns;
    partial.rows += add_piece(x.scalar_type(), piece);
  }
  size_ += ceil_div(partial.rows * columns, kAlignment) * kAlignment;
  return partial;
}

std::int64_t ColumnSquares::add_piece(torch::ScalarType dtype, SquaresPiece piece) {
  const auto element = static_cast<std::int64_t>(c10::elementSize(dtype));
  const auto vector = kVectorBytes / element;
  const auto warp_tiles = ceil_div(piece.width, kWarp * vector);
  const auto even_chunks = ceil_div(piece.rows, tile_rows(piece.rows, warp_tiles));
  piece.chunk_rows = static_cast<int>(ceil_div(piece.rows, even_chunks));
  while (piece.row_lanes_log2 < 3 &&
         (kRowBatch << (piece.row_lanes_log2 + 1)) <= piece.chunk_rows) {
    ++piece.row_lanes_log2;
  }
  const auto chunks = ceil_div(piece.rows, piece.chunk_rows);
  piece.column_tiles = static_cast<int>(ceil_div(warp_tiles, kWarps >> piece.row_lanes_log2));
  piece.vectorised = piece.width % vector == 0 && piece.row_stride % vector == 0 &&
                     reinterpret_cast<std::uintptr_t>(piece.input) % kVectorBytes == 0;
  piece.blocks = static_cast<int>(chunks * piece.column_tiles);
  pieces_[dtype].push_back(piece);
  return chunks;
}

void ColumnSquares::launch(const torch::Tensor& partial) const {
  const auto stream = c10::cuda::getCurrentCUDAStream();
  for (const auto& dtype_and_pieces : pieces_) {
    const auto& pieces = dtype_and_pieces.second;
    AT_DISPATCH_FLOATING_TYPES_AND2(
        torch::kHalf, torch::kBFloat16, dtype_and_pieces.first, "column_squares", [&] {
          auto* sums = partial.data_ptr<SumOf<scalar_t>>();
          const auto blocks_of = [](const SquaresPiece& piece) { return piece.blocks; };
          const auto launch = [&](const auto& list, unsigned blocks) {
            column_squares<scalar_t><<<blocks, kThreads, 0, stream>>>(list, sums);
            C10_CUDA_KERNEL_LAUNCH_CHECK();
          };
          many_tensors::launch_lists<kFewPieces>(pieces, blocks_of, launch);
        });
  }
}

}  // namespace adaact
