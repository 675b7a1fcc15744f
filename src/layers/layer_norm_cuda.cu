// A warp has a row, in registers: it is read once. The gradients of γ and β are added up by the same threads
// on their way through the rows.

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
using many_tensors::Run;
using many_tensors::store;

constexpr int kRowsAtOnce = 8;  // warps of a block
constexpr int kMostRuns = 8;    // that a lane keeps of a row

template <typename Stream, typename Narrow>
struct Rows {
  const Stream* x;
  const Narrow* branch;       // null: none
  const Stream* branch_bias;  // null: none
  Stream* stream;             // null: there is no branch
  Narrow* output;
  const Stream *weight, *bias;
  Stream *mean, *inverse_deviation;
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

template <typename Stream, typename Narrow, int kRuns, int kWidth>
__global__ void __launch_bounds__(32 * kRowsAtOnce)
    normalise_rows(const Rows<Stream, Narrow> pass) {
  const auto row = static_cast<std::int64_t>(blockIdx.x) * kRowsAtOnce + threadIdx.y;
  if (row >= pass.rows) return;
  const auto begin = row * pass.channels;
  Run<Stream, kWidth> z[kRuns];
  Stream sum = 0;
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    const int column = column_of<kWidth>(run);
    z[run] = {};
    if (column < pass.channels) z[run] = load<kWidth>(pass.x + begin + column);
  }
  if (pass.branch != nullptr) {
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const int column = column_of<kWidth>(run);
      if (column >= pass.channels) continue;
      const auto branch = load<kWidth>(pass.branch + begin + column);
      Run<Stream, kWidth> bias{};
      if (pass.branch_bias != nullptr) bias = load<kWidth>(pass.branch_bias + column);
      for (int k = 0; k < kWidth; ++k) {
        z[run].values[k] += static_cast<Stream>(branch.values[k]) + bias.values[k];
      }
      store<kWidth>(pass.stream + begin + column, z[run]);
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
  }
}

template <typename Stream, typename Narrow>
struct Gradients {
  const Stream* stream;
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
    Run<Narrow, kWidth> dy[kRuns];
    Run<Stream, kWidth> add[kRuns];
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const int column = column_of<kWidth>(run);
      if (column >= pass.channels) continue;
      z[run] = load<kWidth>(pass.stream + begin + column);
      dy[run] = load<kWidth>(pass.output_gradient + begin + column);
      if (pass.stream_gradient != nullptr) {
        add[run] = load<kWidth>(pass.stream_gradient + begin + column);
      }
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

  // Warp by warp, in this order.
  extern __shared__ char memory[];
  auto* of_block = reinterpret_cast<Stream*>(memory);  // (sums, channels)
  for (int warp = 0; warp < kRowsAtOnce; ++warp) {
    if (threadIdx.y == warp) {
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        const int column = column_of<kWidth>(run);
        if (column >= pass.channels) continue;
#pragma unroll
        for (int i = 0; i < kSums * kWidth; ++i) {
          auto& sum = of_block[i / kWidth * pass.channels + column + i % kWidth];
          const auto more = sums[i / kWidth][run][i % kWidth];
          sum = warp == 0 ? more : sum + more;
        }
      }
    }
    __syncthreads();
  }
  const int thread = threadIdx.y * 32 + threadIdx.x;
  for (int i = thread; i < kSums * pass.channels; i += 32 * kRowsAtOnce) {
    const int sum = i / pass.channels;
    pass.partials[(static_cast<std::int64_t>(sum) * gridDim.x + blockIdx.x) * pass.channels +
                  i % pass.channels] = of_block[i];
  }
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

NormalisedRows layer_norm_forward_cuda(const torch::Tensor& given_x,
                                       const torch::Tensor& given_branch,
                                       const torch::Tensor& given_branch_bias,
                                       const torch::Tensor& given_weight,
                                       const torch::Tensor& given_bias, double eps,
                                       torch::ScalarType output_dtype) {
  const c10::cuda::CUDAGuard device(given_x.device());
  const auto x = readable(given_x);
  const auto branch = readable(given_branch);
  const auto branch_bias = readable(given_branch_bias);
  const auto weight = readable(given_weight);
  const auto bias = readable(given_bias);
  const auto channels = x.size(-1);
  const auto rows = x.numel() / channels;
  NormalisedRows result;
  result.stream = branch.defined() ? torch::empty_like(x) : x;
  result.output = torch::empty_like(x, x.options().dtype(output_dtype));
  result.mean = torch::empty({rows}, x.options());
  result.inverse_deviation = torch::empty({rows}, x.options());
  with_types(x.scalar_type(), output_dtype, [&](auto stream_value, auto narrow_value) {
    using Stream = decltype(stream_value);
    using Narrow = decltype(narrow_value);
    Rows<Stream, Narrow> pass{};
    pass.x = x.data_ptr<Stream>();
    pass.branch = data_of<Narrow>(branch);
    pass.branch_bias = data_of<Stream>(branch_bias);
    if (branch.defined()) pass.stream = result.stream.data_ptr<Stream>();
    pass.output = result.output.data_ptr<Narrow>();
    pass.weight = weight.data_ptr<Stream>();
    pass.bias = bias.data_ptr<Stream>();
    pass.mean = result.mean.data_ptr<Stream>();
    pass.inverse_deviation = result.inverse_deviation.data_ptr<Stream>();
    pass.rows = rows;
    pass.channels = static_cast<int>(channels);
    pass.eps = eps;
    with_runs<Stream>(channels, [&](auto runs, auto width) {
      normalise_rows<Stream, Narrow, decltype(runs)::value, decltype(width)::value>
          <<<static_cast<unsigned>(ceil_div(rows, kRowsAtOnce)), dim3(32, kRowsAtOnce), 0,
             c10::cuda::getCurrentCUDAStream()>>>(pass);
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
  const auto& stream = rows.stream;
  const c10::cuda::CUDAGuard device(stream.device());
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
