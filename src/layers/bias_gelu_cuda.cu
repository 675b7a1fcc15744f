#include "layers/bias_gelu_cuda.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "layers/channels.cuh"
#include "layers/sum_of_parts.cuh"

namespace adaact {
namespace {

using namespace channels;
using many_tensors::load_packed;
using many_tensors::Packed;
using many_tensors::Run;
using many_tensors::store;
using many_tensors::unpacked;

template <typename Scalar>
struct Pass {
  using Sum = SumOf<Scalar>;
  Values<const Scalar> x, gradient;
  Values<Scalar> result;
  const Sum* bias;
  Sum* partials;
};

/// A block that goes forward has all threads that a multiprocessor has at a time, so that it leaves one row of partial
/// sums.
constexpr int kForwardThreads = 768;
constexpr int kMostRowsAtOnce = 64;

/// The normal distribution function and its density.
template <typename Sum>
struct Normal {
  Sum distribution, density;
};

// These two are one instruction each. The intrinsics take care of numbers below 2⁻¹²⁶, in several more: forward they
// and the rest of the arithmetic took longer than memory does.

__device__ float exp2_of(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ float inverse_of(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

template <typename Scalar, typename Sum>
__device__ Normal<Sum> normal_at(Sum x) {
  constexpr Sum kRootHalf = 0.70710678118654752440;
  constexpr Sum kDensityAtZero = 0.39894228040143267794;
  if constexpr (sizeof(Scalar) >= 4) {
    return {Sum(0.5) * (1 + erf(x * kRootHalf)), exp(Sum(-0.5) * x * x) * kDensityAtZero};
  } else {
    // Abramowitz and Stegun 7.1.26, within 1.5e-7 of erf, far less than what the output is rounded by. erf() takes
    // longer than memory does, and this exponential is that of the density too.
    constexpr float kHalfOfLog2E = 0.72134752F;
    const auto exponential = exp2_of(-kHalfOfLog2E * x * x);
    const auto t = inverse_of(fmaf(0.3275911F * kRootHalf, fabsf(x), 1.0F));
    auto tail = fmaf(0.5F * 1.061405429F, t, 0.5F * -1.453152027F);
    tail = fmaf(tail, t, 0.5F * 1.421413741F);
    tail = fmaf(tail, t, 0.5F * -0.284496736F);
    tail = fmaf(tail, t, 0.5F * 0.254829592F);
    const auto beyond = tail * t * exponential;  // of the distribution, beyond |x|
    return {x < 0 ? beyond : 1.0F - beyond, exponential * kDensityAtZero};
  }
}

template <typename Sum, int kWidth, typename Way>
__device__ void read_bias(const Sum* bias, const Way& way, const Extent& extent,
                          Sum (&own)[kWidth]) {
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    own[k] = way.channel + k < extent.channels ? bias[way.channel + k] : Sum(0);
  }
}

/// Rounds as static_cast does, narrow numbers two at a time.
template <typename Scalar, int kWidth>
__device__ Run<Scalar, kWidth> rounded(const SumOf<Scalar> (&values)[kWidth]) {
  Run<Scalar, kWidth> run;
  if constexpr (sizeof(Scalar) == 2 && kWidth % 2 == 0) {
#pragma unroll
    for (int k = 0; k < kWidth; k += 2) {
      if constexpr (std::is_same_v<Scalar, c10::BFloat16>) {
        const auto pair = __floats2bfloat162_rn(values[k], values[k + 1]);
        memcpy(&run.values[k], &pair, sizeof(pair));
      } else {
        const auto pair = __floats2half2_rn(values[k], values[k + 1]);
        memcpy(&run.values[k], &pair, sizeof(pair));
      }
    }
  } else {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) run.values[k] = static_cast<Scalar>(values[k]);
  }
  return run;
}

template <typename Scalar>
struct ForwardPass {
  using Sum = SumOf<Scalar>;
  const Scalar* x;
  Scalar* result;
  const Sum* bias;
  Sum* squares;  // (parts, channels): partial sums of those of the result; null: not wanted
  std::int64_t rows, channels;
};

/// A block has whole rows, or as many neighbouring channels as it has threads for, and stays while it goes through
/// the rows: threadIdx.x is a run of channels, threadIdx.y a row of those that it has at a time.
template <typename Scalar, int kWidth, bool kSquares>
__global__ void __launch_bounds__(kForwardThreads, 1) bias_gelu(const ForwardPass<Scalar> pass) {
  using Sum = SumOf<Scalar>;
  constexpr int kTurns = 2;
  const auto channel = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kWidth;
  const bool has_channels = channel < pass.channels;
  const auto rows = has_channels ? pass.rows : 0;
  const auto step = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  Sum bias[kWidth];
#pragma unroll
  for (int k = 0; k < kWidth; ++k) bias[k] = has_channels ? pass.bias[channel + k] : Sum(0);
  Sum squares[kWidth] = {};
  Packed<Scalar, kWidth> next[kTurns] = {};
  const auto read_next = [&](std::int64_t row) {
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const auto at = row + turn * step;
      if (at < rows) next[turn] = load_packed<kWidth>(pass.x + at * pass.channels + channel);
    }
  };
  auto row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  read_next(row);
  for (; row < rows; row += kTurns * step) {
    Packed<Scalar, kWidth> packed[kTurns];
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) packed[turn] = next[turn];
    read_next(row + kTurns * step);  // under way while these are computed
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const auto at = row + turn * step;
      if (at >= rows) continue;
      const auto x = unpacked<Scalar, kWidth>(packed[turn]);
      Sum values[kWidth];
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        const auto value = static_cast<Sum>(x.values[k]) + bias[k];
        values[k] = value * normal_at<Scalar>(value).distribution;
      }
      const auto y = rounded<Scalar, kWidth>(values);
      store<kWidth>(pass.result + at * pass.channels + channel, y);
      if constexpr (kSquares) {
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          const auto stored = static_cast<Sum>(y.values[k]);
          squares[k] += stored * stored;
        }
      }
    }
  }
  if constexpr (kSquares) {
    extern __shared__ __align__(16) char memory[];
    auto* of_rows = reinterpret_cast<Sum*>(memory);  // (rows at a time, channels of the block)
    const int width = static_cast<int>(blockDim.x) * kWidth;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      of_rows[threadIdx.y * width + threadIdx.x * kWidth + k] = squares[k];
    }
    __syncthreads();
    const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
    const auto first = static_cast<std::int64_t>(blockIdx.x) * width;
    for (int i = thread; i < width; i += static_cast<int>(blockDim.x * blockDim.y)) {
      if (first + i >= pass.channels) continue;
      Sum sum = 0;
      for (int row_of_block = 0; row_of_block < blockDim.y; ++row_of_block) {
        sum += of_rows[row_of_block * width + i];
      }
      pass.squares[blockIdx.y * pass.channels + first + i] = sum;
    }
  }
}

template <typename Scalar, int kWidth>
__global__ void __launch_bounds__(kThreads, 2)
    bias_gelu_gradients(const Pass<Scalar> pass, const Extent extent) {
  using Sum = SumOf<Scalar>;
  constexpr int kTurns = 4;
  const Walk<true, kWidth> way(extent);
  Sum bias[kWidth];
  read_bias(pass.bias, way, extent, bias);
  Sum sums[kSums][kWidth] = {};  // of the gradient; there is no second
  Packed<Scalar, kWidth> packed[kTurns];
  Packed<Scalar, kWidth> packed_gradient[kTurns];
  for_each_run_from<kTurns>(
      way, way.first,
      [&](int turn, std::int64_t i) {
        packed[turn] = load_packed<kWidth>(way.at(pass.x, extent, i));
        packed_gradient[turn] = load_packed<kWidth>(way.at(pass.gradient, extent, i));
      },
      [&](int turn, std::int64_t i) {
        const auto x = unpacked<Scalar, kWidth>(packed[turn]);
        const auto gradient = unpacked<Scalar, kWidth>(packed_gradient[turn]);
        Run<Scalar, kWidth> dx;
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          const auto value = static_cast<Sum>(x.values[k]) + bias[k];
          const auto normal = normal_at<Scalar>(value);
          dx.values[k] = static_cast<Scalar>(static_cast<Sum>(gradient.values[k]) *
                                             (normal.distribution + value * normal.density));
          sums[0][k] += static_cast<Sum>(dx.values[k]);
        }
        store<kWidth>(way.at(pass.result, extent, i), dx);
      });
  write_partial_sums<true, kWidth>(way, extent, sums, pass.partials);
}

/// Rows of channels, which is what a tensor with the channels last is.
Shape shape_of(const torch::Tensor& x) {
  return {x.numel() / x.size(-1), x.size(-1), /*pixels=*/1, /*channels_last=*/true};
}

struct ForwardGrid {
  dim3 grid, block;
};

/// `runs`: how many there are in a row.
ForwardGrid forward_grid(std::int64_t rows, std::int64_t runs) {
  constexpr std::int64_t kMostLanes = 256;
  const auto columns = ceil_div(runs, kMostLanes);  // of blocks
  const auto lanes = ceil_div(runs, columns);
  const auto rows_at_once =
      std::min<std::int64_t>({kForwardThreads / lanes, kMostRowsAtOnce, rows});
  const auto blocks = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const auto parts = std::min<std::int64_t>(ceil_div(rows, rows_at_once),
                                            std::max<std::int64_t>(1, blocks / columns));
  return {dim3(static_cast<unsigned>(columns), static_cast<unsigned>(parts)),
          dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(rows_at_once))};
}

/// Calls launch(width): kWide where the channels come in runs of so many, else 1.
template <int kWide, typename Launch, typename... Scalar>
void with_width(std::int64_t channels, const Launch& launch, const Scalar*... arrays) {
  const bool in_runs = channels % kWide == 0 && many_tensors::aligned_for_runs<kWide>(arrays...);
  in_runs ? launch(std::integral_constant<int, kWide>()) : launch(std::integral_constant<int, 1>());
}

}  // namespace

BiasGeluOutput bias_gelu_forward_cuda(const torch::Tensor& given_x, const torch::Tensor& bias,
                                      bool sum_squares) {
  const c10::cuda::CUDAGuard device(given_x.device());
  const auto x = given_x.contiguous();
  const auto channels = x.size(-1);
  BiasGeluOutput result;
  result.output = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, x.scalar_type(), "bias_gelu_forward_cuda", [&] {
        using Sum = SumOf<scalar_t>;
        ForwardPass<scalar_t> pass{};
        pass.x = x.data_ptr<scalar_t>();
        pass.result = result.output.data_ptr<scalar_t>();
        pass.bias = bias.data_ptr<Sum>();
        pass.rows = x.numel() / channels;
        pass.channels = channels;
        const auto launch = [&](auto width) {
          constexpr int kWidth = decltype(width)::value;
          const auto shape = forward_grid(pass.rows, channels / kWidth);
          const auto cuda_stream = c10::cuda::getCurrentCUDAStream();
          if (sum_squares) {
            result.squares = torch::empty({shape.grid.y, channels}, bias.options());
            pass.squares = result.squares.template data_ptr<Sum>();
            const auto memory = shape.block.x * shape.block.y * kWidth * sizeof(Sum);
            bias_gelu<scalar_t, kWidth, true>
                <<<shape.grid, shape.block, memory, cuda_stream>>>(pass);
          } else {
            bias_gelu<scalar_t, kWidth, false><<<shape.grid, shape.block, 0, cuda_stream>>>(pass);
          }
          C10_CUDA_KERNEL_LAUNCH_CHECK();
        };
        with_width<16 / sizeof(scalar_t)>(channels, launch, pass.x, pass.result);
      });
  return result;
}

BiasGeluGradients bias_gelu_backward_cuda(const torch::Tensor& given_gradient,
                                          const torch::Tensor& given_x, const torch::Tensor& bias) {
  const c10::cuda::CUDAGuard device(given_x.device());
  const auto x = given_x.contiguous();
  const auto gradient = given_gradient.contiguous();
  const auto shape = shape_of(x);
  BiasGeluGradients result;
  result.x = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, x.scalar_type(), "bias_gelu_backward_cuda", [&] {
        using Sum = SumOf<scalar_t>;
        Pass<scalar_t> pass{};
        pass.x = {x.data_ptr<scalar_t>(), shape.channels};
        pass.gradient = {gradient.data_ptr<scalar_t>(), shape.channels};
        pass.result = {result.x.data_ptr<scalar_t>(), shape.channels};
        pass.bias = bias.data_ptr<Sum>();
        const auto launch = [&](auto width) {
          constexpr int kWidth = decltype(width)::value;
          const auto extent = extent_of_sums(shape, kWidth);
          const auto partials =
              torch::empty({kSums, extent.parts, extent.channels}, bias.options());
          pass.partials = partials.template data_ptr<Sum>();
          bias_gelu_gradients<scalar_t, kWidth>
              <<<extent.grid(), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(pass, extent);
          C10_CUDA_KERNEL_LAUNCH_CHECK();
          result.bias = sum_of_parts(partials.narrow(0, 0, 1)).view({shape.channels});
        };
        with_width<kRun<scalar_t>>(shape.channels, launch, pass.x.data, pass.gradient.data,
                                   pass.result.data);
      });
  return result;
}

}  // namespace adaact
