// Bytes decide, and for small tensors the time until the first of them is there: x is read twice, and the second kernel
// has its first part of it before the first kernel's sums.

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "layers/batch_norm_cuda.h"
#include "layers/batch_norm_passes.cuh"

namespace adaact {
namespace {

using namespace channels;
using many_tensors::load_packed;
using many_tensors::Packed;
using many_tensors::Run;
using many_tensors::store;
using many_tensors::unpacked;

template <typename Scalar>
struct ForwardPass {
  using Sum = SumOf<Scalar>;
  Values<const Scalar> x, residual;
  Values<Scalar> y;
  const Sum *weight, *bias;
  Sum *mean, *inverse_deviation;
  Sum *running_mean, *running_variance;
  std::int64_t* batches;
  double momentum, eps;
  bool relu;
  Sum* partials;  // of x and x², both less the channel's first value, so that they stay small
  int parts;
  Sum* squares;     // partial sums of y², (parts, channels), where they are wanted
  double share;     // of an element in its channel's mean
  double unbiased;  // what the variance of the batch is multiplied by for the running one
};

/// A channel's first value: near all others, if they are near one another.
template <bool kChannelsLast, typename Scalar>
__device__ SumOf<Scalar> offset_of(const Values<const Scalar>& x, const Extent& extent, int width,
                                   std::int64_t channel) {
  return static_cast<SumOf<Scalar>>(
      x.data[kChannelsLast ? channel : channel * extent.inner * width]);
}

template <bool kChannelsLast, int kWidth, typename Scalar, int kOwn>
__device__ void find_offsets(const ForwardPass<Scalar>& pass, const Extent& extent,
                             const Walk<kChannelsLast, kWidth>& way,
                             SumOf<Scalar> (&offset)[kOwn]) {
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    offset[k] = way.channel + k < extent.channels
                    ? offset_of<kChannelsLast>(pass.x, extent, kWidth, way.channel + k)
                    : SumOf<Scalar>(0);
  }
}

template <typename Scalar, int kWidth, int kOwn>
__device__ void add_input(const Packed<Scalar, kWidth>& packed, const SumOf<Scalar> (&offset)[kOwn],
                          SumOf<Scalar> (&sums)[kSums][kOwn]) {
  const auto x = unpacked<Scalar, kWidth>(packed);
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    const auto value = static_cast<SumOf<Scalar>>(x.values[k]) - offset[k % kOwn];
    sums[0][k % kOwn] += value;
    sums[1][k % kOwn] += value * value;
  }
}

template <typename Scalar, bool kChannelsLast, int kWidth>
__global__ void __launch_bounds__(kThreads, 2)
    sum_inputs(const ForwardPass<Scalar> pass, const Extent extent) {
  using Sum = SumOf<Scalar>;
  constexpr int kTurns = 8;
  let_next_kernel_start();
  const Walk<kChannelsLast, kWidth> way(extent);
  constexpr int kOwn = way.kChannels;
  Sum sums[kSums][kOwn] = {};
  Sum offset[kOwn];
  find_offsets(pass, extent, way, offset);
  Packed<Scalar, kWidth> packed[kTurns];
  for_each_run_from<kTurns>(
      way, way.first,
      [&](int turn, std::int64_t i) {
        packed[turn] = load_packed<kWidth>(way.at(pass.x, extent, i));
      },
      [&](int turn, std::int64_t) { add_input<Scalar, kWidth>(packed[turn], offset, sums); });
  write_partial_sums(way, extent, sums, pass.partials);
}

/// Makes the statistics of this block's channels from the sums of the kernel before. Brings the running ones up to
/// date.
template <typename Scalar, bool kChannelsLast, int kWidth>
__device__ void find_statistics(const ForwardPass<Scalar>& pass, const Extent& extent,
                                ChannelScalars<SumOf<Scalar>>* scalars) {
  using Sum = SumOf<Scalar>;
  __shared__ double totals[kSums][kMostChannels];
  const int width = Walk<kChannelsLast, kWidth>::of_block(extent);
  const auto begin = static_cast<std::int64_t>(blockIdx.x) * width;
  const auto channel = begin + threadIdx.x;
  const bool is_one = threadIdx.x < width && channel < extent.channels;
  const bool writes = is_one && blockIdx.y == 0;
  // Loads that need not wait come first.
  const Sum offset = is_one ? offset_of<kChannelsLast>(pass.x, extent, kWidth, channel) : Sum(0);
  const Sum weight = is_one ? pass.weight[channel] : Sum(0);
  const Sum bias = is_one ? pass.bias[channel] : Sum(0);
  const Sum running_mean = writes ? pass.running_mean[channel] : Sum(0);
  const Sum running_variance = writes ? pass.running_variance[channel] : Sum(0);
  wait_for_kernel_before();
  add_partial_sums(pass.partials, pass.parts, extent.channels, begin, width, totals);
  Sum mean = 0;
  Sum inverse_deviation = 0;
  double variance = 0.0;
  if (is_one) {
    const double from_offset = totals[0][threadIdx.x] * pass.share;
    variance = fmax(0.0, totals[1][threadIdx.x] * pass.share - from_offset * from_offset);
    mean = static_cast<Sum>(offset + from_offset);
    inverse_deviation = static_cast<Sum>(rsqrt(variance + pass.eps));
    scalars[threadIdx.x] = {mean, weight * inverse_deviation, bias};
  }
  __syncthreads();
  if (!writes) return;  // what follows keeps nobody waiting
  pass.mean[channel] = mean;
  pass.inverse_deviation[channel] = inverse_deviation;
  const auto momentum = static_cast<Sum>(pass.momentum);
  const auto unbiased = static_cast<Sum>(variance * pass.unbiased);
  pass.running_mean[channel] = momentum * mean + (1 - momentum) * running_mean;
  pass.running_variance[channel] = momentum * unbiased + (1 - momentum) * running_variance;
  if (channel == 0 && pass.batches != nullptr) ++*pass.batches;
}

/// Returns the output of one run and, where they are wanted, adds its squares.
template <bool kResidual, bool kSquares, typename Scalar, int kWidth, int kOwn>
__device__ Run<Scalar, kWidth> output_of(const ForwardPass<Scalar>& pass,
                                         const Packed<Scalar, kWidth>& packed,
                                         const Packed<Scalar, kWidth>& packed_residual,
                                         const ChannelScalars<SumOf<Scalar>> (&own)[kOwn],
                                         SumOf<Scalar> (&squares)[1][kOwn]) {
  using Sum = SumOf<Scalar>;
  const auto x = unpacked<Scalar, kWidth>(packed);
  Run<Scalar, kWidth> residual;
  if constexpr (kResidual) residual = unpacked<Scalar, kWidth>(packed_residual);
  Run<Scalar, kWidth> y;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    auto value = normalised(static_cast<Sum>(x.values[k]), own[k % kOwn]);
    if constexpr (kResidual) value += static_cast<Sum>(residual.values[k]);
    if (pass.relu && value < 0) value = 0;  // what is not a number stays so
    y.values[k] = static_cast<Scalar>(value);
    if constexpr (kSquares) {
      const auto stored = static_cast<Sum>(y.values[k]);
      squares[0][k % kOwn] += stored * stored;
    }
  }
  return y;
}

template <typename Scalar, bool kChannelsLast, int kWidth, bool kResidual, bool kSquares>
__global__ void __launch_bounds__(kThreads, 2)
    normalise(const ForwardPass<Scalar> pass, const Extent extent) {
  using Sum = SumOf<Scalar>;
  constexpr int kTurns = 4;
  __shared__ ChannelScalars<Sum> scalars[kMostChannels];
  const Walk<kChannelsLast, kWidth> way(extent);
  constexpr int kOwn = way.kChannels;
  ChannelScalars<Sum> own[kOwn];
  Sum squares[1][kOwn] = {};
  Packed<Scalar, kWidth> packed[kTurns];
  Packed<Scalar, kWidth> packed_residual[kTurns];
  const auto load = [&](int turn, std::int64_t i) {
    packed[turn] = load_packed<kWidth>(way.at(pass.x, extent, i));
    if constexpr (kResidual) {
      packed_residual[turn] = load_packed<kWidth>(way.at(pass.residual, extent, i));
    }
  };
  const auto use = [&](int turn, std::int64_t i) {
    store<kWidth>(way.at(pass.y, extent, i),
                  output_of<kResidual, kSquares, Scalar, kWidth>(
                      pass, packed[turn], packed_residual[turn], own, squares));
  };
  const auto prepare = [&] {
    find_statistics<Scalar, kChannelsLast, kWidth>(pass, extent, scalars);
#pragma unroll
    for (int k = 0; k < kOwn; ++k) own[k] = scalars[way.local + k];
  };
  for_some_runs_of<kTurns>(way, way.first, load, prepare, use);
  for_each_run_from<kTurns>(way, way.first + kTurns * way.step, load, use);
  if constexpr (kSquares) write_partial_sums(way, extent, squares, pass.squares);
}

/// What the launches of a forward pass share.
template <typename Scalar>
struct ForwardLaunch {
  ForwardPass<Scalar> pass;
  const Shape& shape;
  const torch::Tensor& weight;  // sums have its dtype
  torch::Tensor squares;

  void set_partials(const torch::Tensor& partials, const Extent& extent) {
    pass.partials = partials.template data_ptr<SumOf<Scalar>>();
    pass.parts = extent.parts;
  }
  void make_squares(const Extent& extent) {
    squares = torch::empty({extent.parts, extent.channels}, weight.options());
    pass.squares = squares.template data_ptr<SumOf<Scalar>>();
  }

  template <bool kLast, int kWidth, bool kResidual, bool kSquares>
  void run() {
    const auto of_sums = extent_of_sums(shape, kWidth);
    const auto of_elements = extent_of_elements(shape, kWidth);
    const auto partials = empty_partial_sums(of_sums, weight);
    set_partials(partials, of_sums);
    if constexpr (kSquares) make_squares(of_elements);
    sum_inputs<Scalar, kLast, kWidth>
        <<<of_sums.grid(), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(pass, of_sums);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    launch_dependent(normalise<Scalar, kLast, kWidth, kResidual, kSquares>, pass, of_elements);
  }
};

template <typename Scalar>
torch::Tensor run_forward(const ForwardPass<Scalar>& pass, const Shape& shape,
                          const torch::Tensor& weight, bool with_squares) {
  ForwardLaunch<Scalar> launch{pass, shape, weight, {}};
  const bool in_runs = can_be_read_in_runs<kRun<Scalar>>(shape, pass.x, pass.residual, pass.y);
  with_layout<Scalar>(shape, in_runs, [&](auto channels_last, auto width) {
    constexpr bool kLast = decltype(channels_last)::value;
    constexpr int kWidth = decltype(width)::value;
    const bool has_residual = pass.residual.data != nullptr;
    if constexpr (kLast && kWidth > 1) {
      if (with_squares) {
        has_residual ? launch.template run<kLast, kWidth, true, true>()
                     : launch.template run<kLast, kWidth, false, true>();
        return;
      }
    }
    has_residual ? launch.template run<kLast, kWidth, true, false>()
                 : launch.template run<kLast, kWidth, false, false>();
  });
  return launch.squares;
}

}  // namespace

NormalisedBatch batch_norm_forward_cuda(const torch::Tensor& x, const torch::Tensor& residual,
                                        const torch::Tensor& weight, const torch::Tensor& bias,
                                        const RunningStatistics& running, double eps, bool relu,
                                        bool with_squares) {
  const c10::cuda::CUDAGuard device(x.device());
  const auto shape = shape_of(x);
  NormalisedBatch result;
  result.output = torch::empty(
      x.sizes(), x.options(),
      shape.channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous);
  result.mean = torch::empty_like(weight);
  result.inverse_deviation = torch::empty_like(weight);
  // Module::to(dtype) of LibTorch's C++ front end makes it a floating-point number.
  const bool counts_here = running.batches.scalar_type() == torch::kLong;
  if (!counts_here) running.batches.add_(1);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, x.scalar_type(), "batch_norm_forward_cuda", [&] {
        using Sum = SumOf<scalar_t>;
        ForwardPass<scalar_t> pass{};
        pass.x = read<scalar_t>(x, shape);
        pass.residual = read<scalar_t>(residual, shape);
        pass.y = write<scalar_t>(result.output, shape);
        pass.weight = weight.data_ptr<Sum>();
        pass.bias = bias.data_ptr<Sum>();
        pass.mean = result.mean.data_ptr<Sum>();
        pass.inverse_deviation = result.inverse_deviation.data_ptr<Sum>();
        pass.running_mean = running.mean.data_ptr<Sum>();
        pass.running_variance = running.variance.data_ptr<Sum>();
        if (counts_here) pass.batches = running.batches.data_ptr<std::int64_t>();
        pass.momentum = running.momentum;
        pass.eps = eps;
        pass.relu = relu;
        const auto elements = static_cast<double>(shape.images * shape.pixels);
        pass.share = 1.0 / elements;
        pass.unbiased = elements / (elements - 1.0);
        result.squares = run_forward(pass, shape, weight, with_squares);
      });
  return result;
}

}  // namespace adaact
