// Second moment of a layer's input on a GPU: Σ_b x² in one read of the input, without atomics, so
// that equal inputs give equal bits. The windows of a convolution are summed by tensor operations
// on that one sample's worth of numbers.

#include <algorithm>

#include <ATen/Dispatch.h>
#include <ATen/cuda/CUDAContext.h>
#include <adaact/moments/moments.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include "moments/sum_dtype.h"
#include "moments/window_sums.h"

namespace adaact {
namespace {

constexpr int kThreads = 256;
/// Row chunks give narrow inputs enough blocks to fill the GPU.
constexpr std::int64_t kMaxChunks = 64;
constexpr std::int64_t kRowsPerChunk = 16;  // at least
/// Narrow dense matrices are read as wider ones of fewer rows, so that a warp reads whole lines.
constexpr std::int64_t kFoldedColumns = 1024;

/// partial[chunk, column] = Σ over the chunk's rows of x². One thread a column and chunk.
template <typename Scalar, typename Sum>
__global__ void column_squares(const Scalar* x, std::int64_t rows, std::int64_t row_stride,
                               std::int64_t columns, std::int64_t chunk_rows, Sum* partial) {
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  const std::int64_t begin = std::int64_t{blockIdx.y} * chunk_rows;
  const std::int64_t end = begin + chunk_rows < rows ? begin + chunk_rows : rows;
  Sum sum = 0;
  for (std::int64_t row = begin; row < end; ++row) {
    const Sum a = static_cast<Sum>(x[row * row_stride + column]);
    sum += a * a;
  }
  partial[blockIdx.y * columns + column] = sum;
}

/// Σ over the rows of a matrix whose rows are one block of memory each: (columns).
torch::Tensor row_sum_of_squares(const torch::Tensor& x, std::int64_t rows, std::int64_t row_stride,
                                 std::int64_t columns) {
  const auto chunks = std::clamp<std::int64_t>(rows / kRowsPerChunk, 1, kMaxChunks);
  const auto chunk_rows = (rows + chunks - 1) / chunks;
  auto partial = torch::empty({chunks, columns}, x.options().dtype(sum_dtype(x)));
  const dim3 blocks(static_cast<unsigned>((columns + kThreads - 1) / kThreads),
                    static_cast<unsigned>(chunks));
  AT_DISPATCH_FLOATING_TYPES_AND2(
      torch::kHalf, torch::kBFloat16, x.scalar_type(), "second_moment_cuda", [&] {
        using Sum = std::conditional_t<std::is_same_v<scalar_t, double>, double, float>;
        column_squares<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
            x.data_ptr<scalar_t>(), rows, row_stride, columns, chunk_rows, partial.data_ptr<Sum>());
        C10_CUDA_KERNEL_LAUNCH_CHECK();
      });
  return partial.sum(0);
}

torch::Tensor sum_of_squares(const torch::Tensor& x) {
  const auto rows = x.size(0);
  const auto columns = x.numel() / rows;
  const auto fold = kFoldedColumns / columns;
  if (fold < 2 || x.stride(0) != columns || rows % fold != 0) {
    return row_sum_of_squares(x, rows, x.stride(0), columns);
  }
  return row_sum_of_squares(x, rows / fold, fold * columns, fold * columns)
      .view({fold, columns})
      .sum(0);
}

}  // namespace

Moment second_moment_cuda(const torch::Tensor& input, const Geometry& geometry) {
  auto x = geometry.batched(input);
  if (x.numel() == 0) return second_moment_tensor(input, geometry);
  const c10::cuda::CUDAGuard device(x.device());
  if (!x.select(0, 0).is_non_overlapping_and_dense()) x = x.contiguous();
  // The sums lie in memory as a sample does.
  const auto squares = sum_of_squares(x).as_strided(x.sizes().slice(1), x.strides().slice(1));
  return {window_sums(squares, geometry), x.size(0) * geometry.positions(x)};
}

}  // namespace adaact
