// A warp has a row, in registers: it is read once. The gradients of γ and β are added up by the same threads
// on their way through the rows, and so are, if somebody wants them, the squares of the output.

#include "layers/layer_norm_cuda.h"

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "layers/channels.cuh"
#include "layers/sum_of_parts.cuh"

namespace adaact {
namespace {

using many_tensors::load;
using many_tensors::load_packed;
using many_tensors::Packed;
using many_tensors::Run;
using many_tensors::store;
using many_tensors::unpacked;

constexpr int kRowsAtOnce = 8;  // warps of a block
constexpr int kMostRuns = 8;    // that a lane keeps of a row
constexpr int kBranches = 2;    // that may be added before the normalisation

template <typename Stream, typename Narrow>
struct Rows {
  const Stream* x;
  const Narrow* branches[kBranches];       // null: none
  const Stream* branch_biases[kBranches];  // null: none
  Stream* stream;                          // null: not to be written
  Narrow* output;
  const Stream *weight, *bias;
  Stream *mean, *inverse_deviation;
  Stream* squares;  // (blocks, channels): partial sums of those of the output; null: not wanted
  std::int64_t rows;
  int channels;
  double eps;
};

template <typename Sum>
__device__ Sum warp_sum(Sum value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffU, value, lanes);
  return value;
}

/// The first column of a lane's run.
template <int kWidth>
__device__ int column_of(int run) {
  return (run * 32 + static_cast<int>(threadIdx.x)) * kWidth;
}

/// Backward a sum that was not written is made once more, by the same additions.
template <typename Narrow, int kRuns, int kWidth, typename Stream>
__device__ void add_branch(const Packed<Narrow, kWidth> (&packed)[kRuns],
                           const Stream* bias_or_null, int channels,
                           Run<Stream, kWidth> (&z)[kRuns]) {
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    const int column = column_of<kWidth>(run);
    if (column >= channels) continue;
    const auto branch = unpacked<Narrow, kWidth>(packed[run]);
    Run<Stream, kWidth> bias{};
    if (bias_or_null != nullptr) bias = load<kWidth>(bias_or_null + column);
    for (int k = 0; k < kWidth; ++k) {
      z[run].values[k] += static_cast<Stream>(branch.values[k]) + bias.values[k];
    }
  }
}

/// What a lane has read of a row.
template <typename Stream, typename Narrow, int kRuns, int kWidth>
struct RowRead {
  Packed<Stream, kWidth> x[kRuns];
  Packed<Narrow, kWidth> branches[kBranches][kRuns];
};

template <int kRuns, int kWidth, typename Stream, typename Narrow>
__device__ RowRead<Stream, Narrow, kRuns, kWidth> read_row(const Rows<Stream, Narrow>& pass,
                                                           std::int64_t row) {
  const auto begin = row * pass.channels;
  RowRead<Stream, Narrow, kRuns, kWidth> read{};
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    const int column = column_of<kWidth>(run);
    if (column < pass.channels) read.x[run] = load_packed<kWidth>(pass.x + begin + column);
  }
#pragma unroll
  for (int i = 0; i < kBranches; ++i) {
    if (pass.branches[i] == nullptr) continue;
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const int column = column_of<kWidth>(run);
      if (column < pass.channels) {
        read.branches[i][run] = load_packed<kWidth>(pass.branches[i] + begin + column);
      }
    }
  }
  return read;
}

/// Calls use_output(run, y) with what it stores.
template <int kRuns, int kWidth, typename Stream, typename Narrow, typename Use>
__device__ void normalise_row(const Rows<Stream, Narrow>& pass, std::int64_t row,
                              const RowRead<Stream, Narrow, kRuns, kWidth>& read,
                              const Use& use_output) {
  const auto begin = row * pass.channels;
  Run<Stream, kWidth> z[kRuns];
  Stream sum = 0;
#pragma unroll
  for (int run = 0; run < kRuns; ++run) z[run] = unpacked<Stream, kWidth>(read.x[run]);
#pragma unroll
  for (int i = 0; i < kBranches; ++i) {
    if (pass.branches[i] != nullptr) {
      add_branch<Narrow, kRuns, kWidth>(read.branches[i], pass.branch_biases[i], pass.channels, z);
    }
  }
  if (pass.stream != nullptr) {
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const int column = column_of<kWidth>(run);
      if (column < pass.channels) store<kWidth>(pass.stream + begin + column, z[run]);
    }
  }
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    for (int k = 0; k < kWidth; ++k) sum += z[run].values[k];
  }
  const auto mean = warp_sum(sum) / static_cast<Stream>(pass.channels);
  Stream squares = 0;
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    if (column_of<kWidth>(run) >= pass.channels) continue;
    for (int k = 0; k < kWidth; ++k) {
      const auto apart = z[run].values[k] - mean;
      squares += apart * apart;
    }
  }
  const auto variance = warp_sum(squares) / static_cast<Stream>(pass.channels);
  const auto inverse_deviation = 1 / sqrt(variance + static_cast<Stream>(pass.eps));
  if (threadIdx.x == 0) {
    pass.mean[row] = mean;
    pass.inverse_deviation[row] = inverse_deviation;
  }
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    const int column = column_of<kWidth>(run);
    if (column >= pass.channels) continue;
    const auto weight = load<kWidth>(pass.weight + column);
    const auto bias = load<kWidth>(pass.bias + column);
    Run<Narrow, kWidth> y;
    for (int k = 0; k < kWidth; ++k) {
      y.values[k] = static_cast<Narrow>(
          fma((z[run].values[k] - mean) * inverse_deviation, weight.values[k], bias.values[k]));
    }
    store<kWidth>(pass.output + begin + column, y);
    use_output(run, y);
  }
}

template <typename Stream, typename Narrow, int kRuns, int kWidth>
__global__ void __launch_bounds__(32 * kRowsAtOnce)
    normalise_rows(const Rows<Stream, Narrow> pass) {
  const auto row = static_cast<std::int64_t>(blockIdx.x) * kRowsAtOnce + threadIdx.y;
  if (row >= pass.rows) return;
  normalise_row<kRuns, kWidth>(pass, row, read_row<kRuns, kWidth>(pass, row),
                               [](int /*run*/, const Run<Narrow, kWidth>& /*y*/) {});
}

/// Writes the sums of a block's warps to its row of `partials`, (kSums, blocks, channels): warp by warp, in this
/// order. Takes kSums × channels numbers of shared memory.
template <int kSums, int kRuns, int kWidth, typename Stream>
__device__ void write_block_sums(const Stream (&sums)[kSums][kRuns][kWidth], int channels,
                                 Stream* partials) {
  extern __shared__ __align__(16) char memory[];
  auto* of_block = reinterpret_cast<Stream*>(memory);  // (sums, channels)
  const int warps = static_cast<int>(blockDim.y);
  for (int warp = 0; warp < warps; ++warp) {
    if (threadIdx.y == warp) {
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        const int column = column_of<kWidth>(run);
        if (column >= channels) continue;
#pragma unroll
        for (int i = 0; i < kSums * kWidth; ++i) {
          auto& sum = of_block[i / kWidth * channels + column + i % kWidth];
          const auto more = sums[i / kWidth][run][i % kWidth];
          sum = warp == 0 ? more : sum + more;
        }
      }
    }
    __syncthreads();
  }
  const int thread = threadIdx.y * 32 + threadIdx.x;
  for (int i = thread; i < kSums * channels; i += 32 * warps) {
    const int sum = i / channels;
    partials[(static_cast<std::int64_t>(sum) * gridDim.x + blockIdx.x) * channels + i % channels] =
        of_block[i];
  }
}

/// Blocks of a multiprocessor where squares are summed: they stay and go through the rows, so that there are few
/// partial sums. As many as there are registers for.
template <int kRuns>
constexpr int kSummingBlocks = kRuns == 1   ? 4
                               : kRuns <= 4 ? 2
                                            : 1;

template <typename Stream, typename Narrow, int kRuns, int kWidth>
__global__ void __launch_bounds__(32 * kRowsAtOnce, kSummingBlocks<kRuns>)
    normalise_rows_and_sum_squares(const Rows<Stream, Narrow> pass) {
  Stream squares[1][kRuns][kWidth] = {};
  const auto step = static_cast<std::int64_t>(gridDim.x) * kRowsAtOnce;
  auto row = static_cast<std::int64_t>(blockIdx.x) * kRowsAtOnce + threadIdx.y;
  RowRead<Stream, Narrow, kRuns, kWidth> next;
  if (row < pass.rows) next = read_row<kRuns, kWidth>(pass, row);
  for (; row < pass.rows; row += step) {
    const auto read = next;
    // Under way while this row is normalised: there are not enough warps to wait with.
    if (row + step < pass.rows) next = read_row<kRuns, kWidth>(pass, row + step);
    normalise_row<kRuns, kWidth>(pass, row, read, [&](int run, const Run<Narrow, kWidth>& y) {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        const auto stored = static_cast<Stream>(y.values[k]);
        squares[0][run][k] += stored * stored;
      }
    });
  }
  write_block_sums(squares, pass.channels, pass.squares);
}

template <typename Stream, typename Narrow>
struct Gradients {
  const Stream* stream;
  const Narrow* unwritten;       // to be added to the stream; null: nothing
  const Stream* unwritten_bias;  // null: none
  const Stream *mean, *inverse_deviation, *weight;
  const Narrow* output_gradient;
  const Stream* stream_gradient;  // null: none
  Stream* x;
  Narrow* branch;  // null: none, or the same as x
  Stream*
      partials;  // (sums, blocks, channels): of γ, of β and, where there is one, of the branch's bias
  std::int64_t rows;
  int channels;
};

template <typename Stream, typename Narrow, int kRuns, int kWidth, bool kBranchBias>
__global__ void __launch_bounds__(32 * kRowsAtOnce)
    find_row_gradients(const Gradients<Stream, Narrow> pass) {
  constexpr int kSums = kBranchBias ? 3 : 2;
  Stream sums[kSums][kRuns][kWidth] = {};
  const auto step = static_cast<std::int64_t>(gridDim.x) * kRowsAtOnce;
  for (auto row = static_cast<std::int64_t>(blockIdx.x) * kRowsAtOnce + threadIdx.y;
       row < pass.rows; row += step) {
    const auto begin = row * pass.channels;
    const auto mean = pass.mean[row];
    const auto inverse_deviation = pass.inverse_deviation[row];
    Run<Stream, kWidth> z[kRuns];
    Packed<Narrow, kWidth> unwritten[kRuns];
    Run<Narrow, kWidth> dy[kRuns];
    Run<Stream, kWidth> add[kRuns];
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const int column = column_of<kWidth>(run);
      if (column >= pass.channels) continue;
      z[run] = load<kWidth>(pass.stream + begin + column);
      if (pass.unwritten != nullptr) {
        unwritten[run] = load_packed<kWidth>(pass.unwritten + begin + column);
      }
      dy[run] = load<kWidth>(pass.output_gradient + begin + column);
      if (pass.stream_gradient != nullptr) {
        add[run] = load<kWidth>(pass.stream_gradient + begin + column);
      }
    }
    if (pass.unwritten != nullptr) {
      add_branch<Narrow, kRuns, kWidth>(unwritten, pass.unwritten_bias, pass.channels, z);
    }
    Stream sum = 0;    // Σ γ dy
    Stream slope = 0;  // Σ γ dy x̂
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const int column = column_of<kWidth>(run);
      if (column >= pass.channels) continue;
      const auto weight = load<kWidth>(pass.weight + column);
      for (int k = 0; k < kWidth; ++k) {
        const auto normalised = (z[run].values[k] - mean) * inverse_deviation;  // x̂
        const auto gradient = static_cast<Stream>(dy[run].values[k]);
        sums[0][run][k] += gradient * normalised;
        sums[1][run][k] += gradient;
        sum += gradient * weight.values[k];
        slope += gradient * weight.values[k] * normalised;
      }
    }
    sum = warp_sum(sum) / static_cast<Stream>(pass.channels);
    slope = warp_sum(slope) / static_cast<Stream>(pass.channels);
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const int column = column_of<kWidth>(run);
      if (column >= pass.channels) continue;
      const auto weight = load<kWidth>(pass.weight + column);
      Run<Stream, kWidth> dx;
      Run<Narrow, kWidth> narrow;
      for (int k = 0; k < kWidth; ++k) {
        const auto normalised = (z[run].values[k] - mean) * inverse_deviation;
        auto value =
            inverse_deviation *
            (static_cast<Stream>(dy[run].values[k]) * weight.values[k] - sum - normalised * slope);
        if (pass.stream_gradient != nullptr) value += add[run].values[k];
        dx.values[k] = value;
        narrow.values[k] = static_cast<Narrow>(value);
        if constexpr (kBranchBias) sums[2][run][k] += value;
      }
      store<kWidth>(pass.x + begin + column, dx);
      if (pass.branch != nullptr) store<kWidth>(pass.branch + begin + column, narrow);
    }
  }

  write_block_sums(sums, pass.channels, pass.partials);
}

template <typename Stream>
constexpr int kRunOf = 16 / sizeof(Stream);

/// Calls launch(runs, width) with compile-time constants.
template <typename Stream, typename Launch>
void with_runs(std::int64_t channels, const Launch& launch) {
  using Wide = std::integral_constant<int, kRunOf<Stream>>;
  using One = std::integral_constant<int, 1>;
  const auto of_width = [&](auto width) {
    const auto runs = ceil_div(channels, 32 * decltype(width)::value);
    if (runs <= 1) return launch(std::integral_constant<int, 1>(), width);
    if (runs <= 2) return launch(std::integral_constant<int, 2>(), width);
    if (runs <= 3) return launch(std::integral_constant<int, 3>(), width);
    if (runs <= 4) return launch(std::integral_constant<int, 4>(), width);
    if (runs <= 6) return launch(std::integral_constant<int, 6>(), width);
    TORCH_INTERNAL_ASSERT(runs <= kMostRuns);
    launch(std::integral_constant<int, kMostRuns>(), width);
  };
  channels % kRunOf<Stream> == 0 ? of_width(Wide()) : of_width(One());
}

/// Calls call(stream, narrow) with a value of each type.
template <typename Call>
void with_types(torch::ScalarType stream, torch::ScalarType narrow, const Call& call) {
  if (stream == torch::kFloat64) return call(double(), double());
  TORCH_INTERNAL_ASSERT(stream == torch::kFloat32);
  if (narrow == torch::kFloat32) return call(float(), float());
  if (narrow == torch::kBFloat16) return call(float(), c10::BFloat16());
  TORCH_INTERNAL_ASSERT(narrow == torch::kHalf);
  call(float(), c10::Half());
}

/// Rows without gaps that begin where runs can: almost always the tensor itself.
torch::Tensor readable(const torch::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const auto dense = tensor.contiguous();
  return reinterpret_cast<std::uintptr_t>(dense.data_ptr()) % 16 == 0 ? dense : dense.clone();
}

Branch readable(const Branch& branch) { return {readable(branch.values), readable(branch.bias)}; }

template <typename Scalar>
Scalar* data_of(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<Scalar>() : nullptr;
}

}  // namespace

bool has_layer_norm_kernel(std::int64_t channels, torch::ScalarType stream) {
  if (stream != torch::kFloat32 && stream != torch::kFloat64) return false;
  const int run = stream == torch::kFloat32 ? kRunOf<float> : kRunOf<double>;
  return channels > 0 && channels <= 32 * kMostRuns * (channels % run == 0 ? run : 1);
}

NormalisedRows layer_norm_forward_cuda(const SummedRows& given, const torch::Tensor& given_weight,
                                       const torch::Tensor& given_bias, double eps,
                                       torch::ScalarType output_dtype, bool sum_squares) {
  const c10::cuda::CUDAGuard device(given.x.device());
  const auto x = readable(given.x);
  const Branch branches[kBranches] = {readable(given.unwritten), readable(given.branch)};
  const auto weight = readable(given_weight);
  const auto bias = readable(given_bias);
  const auto channels = x.size(-1);
  const auto rows = x.numel() / channels;
  NormalisedRows result;
  const bool is_written = branches[0].values.defined();
  result.stream = is_written ? torch::empty_like(x) : x;
  if (!is_written) result.unwritten = branches[1];
  result.output = torch::empty_like(x, x.options().dtype(output_dtype));
  result.mean = torch::empty({rows}, x.options());
  result.inverse_deviation = torch::empty({rows}, x.options());
  with_types(x.scalar_type(), output_dtype, [&](auto stream_value, auto narrow_value) {
    using Stream = decltype(stream_value);
    using Narrow = decltype(narrow_value);
    Rows<Stream, Narrow> pass{};
    pass.x = x.data_ptr<Stream>();
    for (int i = 0; i < kBranches; ++i) {
      pass.branches[i] = data_of<Narrow>(branches[i].values);
      pass.branch_biases[i] = data_of<Stream>(branches[i].bias);
    }
    if (is_written) pass.stream = result.stream.template data_ptr<Stream>();
    pass.output = result.output.data_ptr<Narrow>();
    pass.weight = weight.data_ptr<Stream>();
    pass.bias = bias.data_ptr<Stream>();
    pass.mean = result.mean.data_ptr<Stream>();
    pass.inverse_deviation = result.inverse_deviation.data_ptr<Stream>();
    pass.rows = rows;
    pass.channels = static_cast<int>(channels);
    pass.eps = eps;
    with_runs<Stream>(channels, [&](auto runs, auto width) {
      constexpr int kRuns = decltype(runs)::value;
      constexpr int kWidth = decltype(width)::value;
      const auto cuda_stream = c10::cuda::getCurrentCUDAStream();
      if (sum_squares) {
        const auto blocks = std::min<std::int64_t>(
            ceil_div(rows, kRowsAtOnce),
            kSummingBlocks<kRuns> * at::cuda::getCurrentDeviceProperties()->multiProcessorCount);
        result.squares = torch::empty({blocks, channels}, x.options());
        pass.squares = result.squares.template data_ptr<Stream>();
        normalise_rows_and_sum_squares<Stream, Narrow, kRuns, kWidth>
            <<<static_cast<unsigned>(blocks), dim3(32, kRowsAtOnce), channels * sizeof(Stream),
               cuda_stream>>>(pass);
      } else {
        normalise_rows<Stream, Narrow, kRuns, kWidth>
            <<<static_cast<unsigned>(ceil_div(rows, kRowsAtOnce)), dim3(32, kRowsAtOnce), 0,
               cuda_stream>>>(pass);
      }
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
  });
  return result;
}

LayerNormGradients layer_norm_backward_cuda(const NormalisedRows& rows,
                                            const torch::Tensor& given_weight,
                                            const torch::Tensor& given_output_gradient,
                                            const torch::Tensor& given_stream_gradient,
                                            Added added) {
  const c10::cuda::CUDAGuard device(rows.stream.device());
  const auto stream = readable(rows.stream);
  const auto unwritten = readable(rows.unwritten);
  const auto weight = readable(given_weight);
  const auto output_gradient = readable(given_output_gradient);
  const auto stream_gradient = readable(given_stream_gradient);
  const auto channels = stream.size(-1);
  const auto count = stream.numel() / channels;
  const auto blocks =
      std::min<std::int64_t>(ceil_div(count, kRowsAtOnce),
                             4 * at::cuda::getCurrentDeviceProperties()->multiProcessorCount);
  LayerNormGradients result;
  result.x = torch::empty_like(stream);
  const bool is_narrow = output_gradient.scalar_type() != stream.scalar_type();
  const bool has_branch = added != Added::Nothing;
  if (has_branch) {
    result.branch = is_narrow ? torch::empty_like(output_gradient) : result.x;
  }
  const bool has_bias = added == Added::BranchAndBias;
  const auto partials = torch::empty({has_bias ? 3 : 2, blocks, channels}, weight.options());
  with_types(stream.scalar_type(), output_gradient.scalar_type(), [&](auto wide, auto narrow) {
    using Stream = decltype(wide);
    using Narrow = decltype(narrow);
    Gradients<Stream, Narrow> pass{};
    pass.stream = stream.data_ptr<Stream>();
    pass.unwritten = data_of<Narrow>(unwritten.values);
    pass.unwritten_bias = data_of<Stream>(unwritten.bias);
    pass.mean = rows.mean.data_ptr<Stream>();
    pass.inverse_deviation = rows.inverse_deviation.data_ptr<Stream>();
    pass.weight = weight.data_ptr<Stream>();
    pass.output_gradient = output_gradient.data_ptr<Narrow>();
    pass.stream_gradient = data_of<Stream>(stream_gradient);
    pass.x = result.x.data_ptr<Stream>();
    if (has_branch && is_narrow) pass.branch = result.branch.data_ptr<Narrow>();
    pass.partials = partials.data_ptr<Stream>();
    pass.rows = count;
    pass.channels = static_cast<int>(channels);
    with_runs<Stream>(channels, [&](auto runs, auto width) {
      const auto launch = [&](auto with_bias) {
        find_row_gradients<Stream, Narrow, decltype(runs)::value, decltype(width)::value,
                           decltype(with_bias)::value>
            <<<static_cast<unsigned>(blocks), dim3(32, kRowsAtOnce),
               partials.size(0) * channels * sizeof(Stream), c10::cuda::getCurrentCUDAStream()>>>(
                pass);
      };
      has_bias ? launch(std::true_type()) : launch(std::false_type());
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
  });
  const auto sums = sum_of_parts(partials);
  result.weight = sums.select(0, 0);
  result.bias = sums.select(0, 1);
  if (has_bias) result.branch_bias = sums.select(0, 2);
  return result;
}

}  // namespace adaact
