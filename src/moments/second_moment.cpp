// Second moment of a layer's input. On the CPU, without the patch matrix:
//
//   S[c, h, w]   = Σ_b x[b, c, h, w]²                      one pass over the input
//   V[c, i, j]  ∝ Σ_{h', w'} S[c, s·h' + d·i − p, s·w' + d·j − p]   a window per kernel offset
//
// The first line is the column sums of squares of a (batch, sample) matrix, whatever the order in
// which a sample lies in memory, so NCHW, NHWC and linear inputs share one kernel.
//
// second_moments_cuda.cpp does the same on a GPU. On other devices it is tensor operations, which
// stand beside the oracle in second_moment_reference.cpp.

#include <algorithm>
#include <numeric>
#include <vector>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <adaact/moments/moments.h>

#include "kernels/ceil_div.h"
#include "kernels/cpu_dispatch.h"
#include "kernels/grain.h"
#include "kernels/sum_dtype.h"

namespace adaact {
namespace {

/// Columns of a block: wide enough for the hardware to look ahead in every row, narrow enough for
/// the accumulators to stay close.
constexpr std::int64_t kNarrowestBlock = 1024;
constexpr std::int64_t kWidestBlock = 16384;
/// Width to which narrow matrices are folded.
constexpr std::int64_t kFoldedColumns = 4096;
/// Rows summed in the input's own accuracy before the sum moves on to float64.
constexpr std::int64_t kRowBatch = 256;
/// Row chunks of folded matrices. A constant, and not the number of threads, so that the result
/// does not depend on it; how the columns are split never matters.
constexpr std::int64_t kRowChunks = 8;
constexpr std::int64_t kRowsPerChunk = 64;  // at least

template <typename Scalar>
struct AddSquares {
  using Sum = SumOf<Scalar>;

  static ADAACT_LOOP_BODY void run(const Scalar* x, std::int64_t rows, std::int64_t row_stride,
                                   std::int64_t columns, Sum* sums) {
    std::int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {  // four rows per pass over the accumulators
      const Scalar* x0 = x + r * row_stride;
      const Scalar* x1 = x0 + row_stride;
      const Scalar* x2 = x1 + row_stride;
      const Scalar* x3 = x2 + row_stride;
      for (std::int64_t j = 0; j < columns; ++j) {
        const Sum a0 = x0[j];
        const Sum a1 = x1[j];
        const Sum a2 = x2[j];
        const Sum a3 = x3[j];
        sums[j] += (a0 * a0 + a1 * a1) + (a2 * a2 + a3 * a3);
      }
    }
    for (; r < rows; ++r) {
      const Scalar* xr = x + r * row_stride;
      for (std::int64_t j = 0; j < columns; ++j) {
        const Sum a = xr[j];
        sums[j] += a * a;
      }
    }
  }
};

/// Adds the column sums of squares of a (rows, columns) matrix to `out`.
template <typename Scalar>
void add_column_squares(const Scalar* x, std::int64_t rows, std::int64_t row_stride,
                        std::int64_t columns, double* out) {
  std::vector<SumOf<Scalar>> sums(static_cast<std::size_t>(columns));
  for (std::int64_t begin = 0; begin < rows; begin += kRowBatch) {
    std::fill(sums.begin(), sums.end(), SumOf<Scalar>(0));
    run_vectorized<AddSquares<Scalar>>(x + begin * row_stride, std::min(kRowBatch, rows - begin),
                                       row_stride, columns, sums.data());
    for (std::int64_t j = 0; j < columns; ++j) out[j] += sums[static_cast<std::size_t>(j)];
  }
}

/// Column sums of squares, the threads sharing the columns.
template <typename Scalar>
std::vector<double> squares_by_columns(const Scalar* x, std::int64_t rows, std::int64_t row_stride,
                                       std::int64_t columns) {
  std::vector<double> sums(static_cast<std::size_t>(columns), 0.0);
  const auto width = std::clamp<std::int64_t>(columns / (4 * at::get_num_threads()),
                                              kNarrowestBlock, kWidestBlock);
  const auto blocks = ceil_div(columns, width);
  at::parallel_for(0, blocks, grain_for(width * rows), [&](std::int64_t begin, std::int64_t end) {
    for (auto column = begin * width; column < std::min(end * width, columns); column += width) {
      add_column_squares(x + column, rows, row_stride, std::min(width, columns - column),
                         sums.data() + column);
    }
  });
  return sums;
}

/// Column sums of squares, the threads sharing the rows.
template <typename Scalar>
std::vector<double> squares_by_rows(const Scalar* x, std::int64_t rows, std::int64_t columns) {
  const auto chunks = std::clamp<std::int64_t>(rows / kRowsPerChunk, 1, kRowChunks);
  const auto chunk_rows = ceil_div(rows, chunks);
  std::vector<double> partial(static_cast<std::size_t>(chunks * columns), 0.0);
  at::parallel_for(
      0, chunks, grain_for(chunk_rows * columns), [&](std::int64_t begin, std::int64_t end) {
        for (auto chunk = begin; chunk < end; ++chunk) {
          const auto row = chunk * chunk_rows;
          add_column_squares(x + row * columns, std::clamp<std::int64_t>(rows - row, 0, chunk_rows),
                             columns, columns, partial.data() + chunk * columns);
        }
      });
  for (std::int64_t chunk = 1; chunk < chunks; ++chunk) {
    for (std::int64_t j = 0; j < columns; ++j) partial[j] += partial[chunk * columns + j];
  }
  partial.resize(static_cast<std::size_t>(columns));
  return partial;
}

/// S of a (batch, sample) matrix. A tall, narrow, dense one is read as a wider one of fewer rows, so
/// that the loop over the columns is worth vectorising and runs through memory in long stretches.
template <typename Scalar>
std::vector<double> column_squares(const Scalar* x, std::int64_t rows, std::int64_t row_stride,
                                   std::int64_t columns) {
  const auto fold = kFoldedColumns / columns;
  if (fold < 2 || row_stride != columns || rows < fold * kRowsPerChunk) {
    return squares_by_columns(x, rows, row_stride, columns);
  }
  const auto folded = squares_by_rows(x, rows / fold, fold * columns);
  std::vector<double> sums(folded.begin(), folded.begin() + columns);
  for (auto run = columns; run < fold * columns; run += columns) {
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += folded[run + j];
  }
  const auto rest = rows / fold * fold;
  add_column_squares(x + rest * columns, rows - rest, columns, columns, sums.data());
  return sums;
}

/// Positions first, first + stride, …, last of one dimension; none if last < first.
struct Run {
  std::int64_t first;
  std::int64_t last;
};

/// Which positions each kernel offset visits inside the input. Offsets that visit the same residue
/// class of positions share most of them: those are summed once, and only the few at the borders
/// for each offset.
class WindowPlan {
 public:
  WindowPlan(const Geometry& geometry, std::size_t dim, std::int64_t size)
      : stride_(geometry.stride[dim]) {
    const auto kernel = geometry.kernel[dim];
    std::vector<Run> visits;
    for (std::int64_t k = 0; k < kernel; ++k) visits.push_back(visits_of(geometry, dim, k, size));
    std::vector<bool> placed(visits.size(), false);
    for (std::size_t k = 0; k < visits.size(); ++k) {
      if (placed[k]) continue;
      auto& shared = shared_.emplace_back();
      shared.common = visits[k];
      for (std::size_t other = k; other < visits.size(); ++other) {
        if ((visits[other].first - visits[k].first) % stride_ != 0) continue;
        placed[other] = true;
        shared.offsets.push_back({static_cast<std::int64_t>(other), {}, {}});
        shared.common = {std::max(shared.common.first, visits[other].first),
                         std::min(shared.common.last, visits[other].last)};
      }
      const bool nothing_shared = shared.common.last < shared.common.first;
      for (auto& [offset, before, after] : shared.offsets) {
        const auto& run = visits[static_cast<std::size_t>(offset)];
        before = nothing_shared ? run : Run{run.first, shared.common.first - stride_};
        after = nothing_shared ? Run{0, -1} : Run{shared.common.last + stride_, run.last};
      }
    }
  }

  /// (size, inner) → (kernel, inner): for each offset the sum over the positions it visits.
  void sum(const double* in, std::int64_t inner, double* out, std::vector<double>& scratch) const {
    for (const auto& shared : shared_) {
      scratch.assign(static_cast<std::size_t>(inner), 0.0);
      add_rows(in, shared.common, inner, scratch.data());
      for (const auto& [offset, before, after] : shared.offsets) {
        double* sums = out + offset * inner;
        std::copy(scratch.begin(), scratch.end(), sums);
        add_rows(in, before, inner, sums);
        add_rows(in, after, inner, sums);
      }
    }
  }

 private:
  struct Offset {
    std::int64_t offset;
    Run before;  // what it visits before and after the positions all of its class visit
    Run after;
  };
  struct Shared {
    Run common;
    std::vector<Offset> offsets;
  };

  static Run visits_of(const Geometry& geometry, std::size_t dim, std::int64_t offset,
                       std::int64_t size) {
    const auto stride = geometry.stride[dim];
    const auto start = offset * geometry.dilation[dim] - geometry.padding_before[dim];
    const auto outputs = geometry.output_size(static_cast<std::int64_t>(dim), size);
    const auto in_padding = start < 0 ? ceil_div(-start, stride) : 0;  // which adds nothing
    const auto first = start + in_padding * stride;
    const auto end = std::min(start + (outputs - 1) * stride, size - 1);
    return {first, end < first ? first - stride : first + (end - first) / stride * stride};
  }

  void add_rows(const double* in, Run run, std::int64_t inner, double* sums) const {
    for (auto at = run.first; at <= run.last; at += stride_) {
      const double* row = in + at * inner;
      for (std::int64_t i = 0; i < inner; ++i) sums[i] += row[i];
    }
  }

  std::int64_t stride_;
  std::vector<Shared> shared_;
};

/// Window sums over every spatial dimension of S, one after the other in the order in which they lie
/// in memory, written to `out` as (C, kernel…).
template <typename Sum>
void window_sums_cpu(std::vector<double> s, const torch::Tensor& x, const Geometry& geometry,
                     Sum* out) {
  // Dimensions of a sample by decreasing stride; 0 is the channel, d + 1 spatial dimension d.
  const auto dims = static_cast<std::size_t>(x.dim() - 1);
  std::vector<std::int64_t> order(dims);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto left, auto right) { return x.stride(left + 1) > x.stride(right + 1); });
  std::vector<std::int64_t> sizes;
  sizes.reserve(dims);
  for (const auto dim : order) sizes.push_back(x.size(dim + 1));

  std::int64_t outer = 1;
  auto inner = static_cast<std::int64_t>(s.size());
  for (std::size_t at = 0; at < dims; ++at) {
    const auto size = sizes[at];
    inner /= size;
    if (order[at] != 0) {
      const auto dim = static_cast<std::size_t>(order[at] - 1);
      const WindowPlan plan(geometry, dim, size);
      sizes[at] = geometry.kernel[dim];
      std::vector<double> next(static_cast<std::size_t>(outer * sizes[at] * inner));
      at::parallel_for(0, outer, grain_for(size * inner),
                       [&](std::int64_t begin, std::int64_t end) {
                         std::vector<double> scratch;
                         for (auto o = begin; o < end; ++o) {
                           plan.sum(s.data() + o * size * inner, inner,
                                    next.data() + o * sizes[at] * inner, scratch);
                         }
                       });
      s = std::move(next);
    }
    outer *= sizes[at];
  }

  if (std::is_sorted(order.begin(), order.end())) {
    std::copy(s.begin(), s.end(), out);
    return;
  }
  // From memory order to (C, kernel…).
  std::vector<std::int64_t> stride_in_out(dims);
  for (std::size_t at = 0; at < dims; ++at) {
    std::int64_t stride = 1;
    for (std::size_t later = 0; later < dims; ++later) {
      if (order[later] > order[at]) stride *= sizes[later];
    }
    stride_in_out[at] = stride;
  }
  for (std::size_t i = 0; i < s.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t to = 0;
    for (auto at = dims; at-- > 0;) {
      to += rest % sizes[at] * stride_in_out[at];
      rest /= sizes[at];
    }
    out[to] = static_cast<Sum>(s[i]);
  }
}

}  // namespace

Moment second_moment_cpu(const torch::Tensor& input, const Geometry& geometry) {
  auto x = geometry.batched(input);
  const auto samples = x.size(0);
  const auto count = samples * geometry.positions(x);
  const std::vector<std::int64_t> shape{geometry.groups, geometry.features(x)};
  if (x.numel() == 0) return {torch::zeros(shape, sum_dtype(input)), count};

  // Any order inside a sample will do as long as the sample is one block of memory.
  if (!x.select(0, 0).is_non_overlapping_and_dense()) x = x.contiguous();
  auto sum = torch::empty(shape, sum_dtype(input));
  AT_DISPATCH_FLOATING_TYPES_AND2(
      torch::kHalf, torch::kBFloat16, x.scalar_type(), "second_moment_cpu", [&] {
        auto* out = sum.data_ptr<SumOf<scalar_t>>();
        auto squares =
            column_squares(x.data_ptr<scalar_t>(), samples, x.stride(0), x.numel() / samples);
        if (geometry.is_linear()) {
          std::copy(squares.begin(), squares.end(), out);
        } else {
          window_sums_cpu(std::move(squares), x, geometry, out);
        }
      });
  return {sum, count};
}

Moment second_moment(const torch::Tensor& input, const Geometry& geometry) {
  if (input.device().is_cpu()) return second_moment_cpu(input, geometry);
  if (input.is_cuda()) return second_moment_cuda(input, geometry);
  return second_moment_tensor(input, geometry);
}

}  // namespace adaact
