// Bytes decide: x is read twice forward, x and the gradient twice backward. What can be told again from what
// is read anyway (where the output was positive) is not kept.

#include "layers/batch_norm_cuda.h"

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "layers/channels.cuh"
#include "layers/layout.h"

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
  double elements;  // of a channel
};

/// Where the output was positive.
enum class Mask : std::uint8_t { Everywhere, AsOutput, AsInput };

template <typename Scalar>
struct BackwardPass {
  using Sum = SumOf<Scalar>;
  Values<const Scalar> gradient, second_gradient, x, output, add;
  Values<Scalar> masked, dx;  // masked: the gradient of what ReLU was taken of
  const Sum *weight, *bias, *mean, *inverse_deviation;
  Sum *dweight, *dbias;
  Sum* partials;  // of dz and dz (x − μ)
  int parts;
  double elements;
};

/// A channel's first value: near all others, if they are near one another.
template <bool kChannelsLast, typename Scalar>
__device__ SumOf<Scalar> offset_of(const Values<const Scalar>& x, const Extent& extent, int width,
                                   std::int64_t channel) {
  return static_cast<SumOf<Scalar>>(
      x.data[kChannelsLast ? channel : channel * extent.inner * width]);
}

template <typename Scalar, bool kChannelsLast, int kWidth>
__global__ void __launch_bounds__(kThreads, 2)
    sum_inputs(const ForwardPass<Scalar> pass, const Extent extent) {
  using Sum = SumOf<Scalar>;
  constexpr int kTurns = 8;
  const Walk<kChannelsLast, kWidth> way(extent);
  constexpr int kOwn = way.kChannels;
  Sum sums[kSums][kOwn] = {};
  Sum offset[kOwn] = {};
  for (int k = 0; k < kOwn; ++k) {
    if (way.channel + k < extent.channels) {
      offset[k] = offset_of<kChannelsLast>(pass.x, extent, kWidth, way.channel + k);
    }
  }
  Packed<Scalar, kWidth> packed[kTurns];
  for_each_run_of<kTurns>(
      way,
      [&](int turn, std::int64_t i) {
        packed[turn] = load_packed<kWidth>(way.at(pass.x, extent, i));
      },
      [&](int turn, std::int64_t) {
        const auto x = unpacked<Scalar, kWidth>(packed[turn]);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          const auto value = static_cast<Sum>(x.values[k]) - offset[k % kOwn];
          sums[0][k % kOwn] += value;
          sums[1][k % kOwn] += value * value;
        }
      });
  write_partial_sums<kChannelsLast, kWidth>(way, extent, sums, pass.partials);
}

/// What an element of a channel is multiplied by and what is added.
template <typename Sum>
struct ChannelScalars {
  Sum mean, scale, bias;
};

template <typename Scalar, bool kChannelsLast, int kWidth>
__device__ void find_statistics(const ForwardPass<Scalar>& pass, const Extent& extent,
                                ChannelScalars<SumOf<Scalar>>* scalars) {
  using Sum = SumOf<Scalar>;
  __shared__ double totals[kSums][kMostChannels];
  const int width = Walk<kChannelsLast, kWidth>::of_block(extent);
  const auto begin = static_cast<std::int64_t>(blockIdx.x) * width;
  add_partial_sums(pass.partials, pass.parts, extent.channels, begin, width, totals);
  const auto channel = begin + threadIdx.x;
  if (threadIdx.x < width && channel < extent.channels) {
    const double offset = offset_of<kChannelsLast>(pass.x, extent, kWidth, channel);
    const double from_offset = totals[0][threadIdx.x] / pass.elements;
    const double variance =
        fmax(0.0, totals[1][threadIdx.x] / pass.elements - from_offset * from_offset);
    const auto mean = static_cast<Sum>(offset + from_offset);
    const auto inverse_deviation = static_cast<Sum>(1.0 / sqrt(variance + pass.eps));
    scalars[threadIdx.x] = {mean, pass.weight[channel] * inverse_deviation, pass.bias[channel]};
    if (blockIdx.y == 0) {
      pass.mean[channel] = mean;
      pass.inverse_deviation[channel] = inverse_deviation;
      const auto momentum = static_cast<Sum>(pass.momentum);
      const auto unbiased = static_cast<Sum>(variance * pass.elements / (pass.elements - 1.0));
      pass.running_mean[channel] = momentum * mean + (1 - momentum) * pass.running_mean[channel];
      pass.running_variance[channel] =
          momentum * unbiased + (1 - momentum) * pass.running_variance[channel];
      if (channel == 0 && pass.batches != nullptr) ++*pass.batches;
    }
  }
  __syncthreads();
}

template <typename Sum>
__device__ Sum normalised(Sum x, const ChannelScalars<Sum>& channel) {
  return fma(x - channel.mean, channel.scale, channel.bias);
}

template <typename Scalar, bool kChannelsLast, int kWidth, bool kResidual>
__global__ void __launch_bounds__(kThreads, 2)
    normalise(const ForwardPass<Scalar> pass, const Extent extent) {
  using Sum = SumOf<Scalar>;
  constexpr int kTurns = 4;
  __shared__ ChannelScalars<Sum> scalars[kMostChannels];
  find_statistics<Scalar, kChannelsLast, kWidth>(pass, extent, scalars);
  const Walk<kChannelsLast, kWidth> way(extent);
  constexpr int kOwn = way.kChannels;
  ChannelScalars<Sum> own[kOwn];
#pragma unroll
  for (int k = 0; k < kOwn; ++k) own[k] = scalars[way.local + k];
  Packed<Scalar, kWidth> packed[kTurns];
  Packed<Scalar, kWidth> packed_residual[kTurns];
  for_each_run_of<kTurns>(
      way,
      [&](int turn, std::int64_t i) {
        packed[turn] = load_packed<kWidth>(way.at(pass.x, extent, i));
        if constexpr (kResidual) {
          packed_residual[turn] = load_packed<kWidth>(way.at(pass.residual, extent, i));
        }
      },
      [&](int turn, std::int64_t i) {
        const auto x = unpacked<Scalar, kWidth>(packed[turn]);
        Run<Scalar, kWidth> residual;
        if constexpr (kResidual) residual = unpacked<Scalar, kWidth>(packed_residual[turn]);
        Run<Scalar, kWidth> y;
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          auto value = normalised(static_cast<Sum>(x.values[k]), own[k % kOwn]);
          if constexpr (kResidual) value += static_cast<Sum>(residual.values[k]);
          if (pass.relu && value < 0) value = 0;  // what is not a number stays so
          y.values[k] = static_cast<Scalar>(value);
        }
        store<kWidth>(way.at(pass.y, extent, i), y);
      });
}

/// The gradient of what ReLU was taken of.
template <Mask kMask, bool kSecond, typename Scalar, int kWidth, bool kChannelsLast>
struct MaskedGradients {
  using Sum = SumOf<Scalar>;

  const BackwardPass<Scalar>& pass;
  const Extent& extent;
  const Walk<kChannelsLast, kWidth>& way;

  /// As it was read.
  struct Loaded {
    Packed<Scalar, kWidth> gradient, second, output, x;
  };
  struct Elements {
    Run<Scalar, kWidth> gradient, second, output, x;
  };

  __device__ void fetch(Loaded& to, std::int64_t i) const {
    to.gradient = load_packed<kWidth>(way.at(pass.gradient, extent, i));
    if constexpr (kSecond) {
      to.second = load_packed<kWidth>(way.at(pass.second_gradient, extent, i));
    }
    if constexpr (kMask == Mask::AsOutput) {
      to.output = load_packed<kWidth>(way.at(pass.output, extent, i));
    }
    to.x = load_packed<kWidth>(way.at(pass.x, extent, i));
  }

  __device__ static Elements elements_of(const Loaded& loaded) {
    Elements elements;
    elements.gradient = unpacked<Scalar, kWidth>(loaded.gradient);
    if constexpr (kSecond) elements.second = unpacked<Scalar, kWidth>(loaded.second);
    if constexpr (kMask == Mask::AsOutput) {
      elements.output = unpacked<Scalar, kWidth>(loaded.output);
    }
    elements.x = unpacked<Scalar, kWidth>(loaded.x);
    return elements;
  }

  __device__ static Scalar value(const Elements& from, int k, const ChannelScalars<Sum>& channel) {
    auto gradient = static_cast<Sum>(from.gradient.values[k]);
    if constexpr (kSecond) gradient += static_cast<Sum>(from.second.values[k]);
    if constexpr (kMask == Mask::AsOutput) {
      if (!(static_cast<Sum>(from.output.values[k]) > 0)) gradient = 0;
    } else if constexpr (kMask == Mask::AsInput) {
      if (!(normalised(static_cast<Sum>(from.x.values[k]), channel) > 0)) gradient = 0;
    }
    return static_cast<Scalar>(gradient);
  }
};

template <typename Scalar>
__device__ ChannelScalars<SumOf<Scalar>> scalars_of(const BackwardPass<Scalar>& pass,
                                                    std::int64_t channel, std::int64_t channels) {
  if (channel >= channels) return {};
  return {pass.mean[channel], pass.weight[channel] * pass.inverse_deviation[channel],
          pass.bias[channel]};
}

template <typename Scalar, bool kChannelsLast, int kWidth, Mask kMask, bool kSecond>
__global__ void __launch_bounds__(kThreads, 2)
    sum_gradients(const BackwardPass<Scalar> pass, const Extent extent) {
  using Sum = SumOf<Scalar>;
  constexpr int kTurns = kSecond ? 2 : 4;  // what registers hold
  const Walk<kChannelsLast, kWidth> way(extent);
  constexpr int kOwn = way.kChannels;
  ChannelScalars<Sum> own[kOwn];
#pragma unroll
  for (int k = 0; k < kOwn; ++k) own[k] = scalars_of(pass, way.channel + k, extent.channels);
  Sum sums[kSums][kOwn] = {};
  const MaskedGradients<kMask, kSecond, Scalar, kWidth, kChannelsLast> gradients{pass, extent, way};
  typename decltype(gradients)::Loaded loaded[kTurns];
  for_each_run_of<kTurns>(
      way, [&](int turn, std::int64_t i) { gradients.fetch(loaded[turn], i); },
      [&](int turn, std::int64_t i) {
        const auto elements = gradients.elements_of(loaded[turn]);
        Run<Scalar, kWidth> masked;
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          masked.values[k] = gradients.value(elements, k, own[k % kOwn]);
          const auto dz = static_cast<Sum>(masked.values[k]);
          const auto x = static_cast<Sum>(elements.x.values[k]);
          sums[0][k % kOwn] += dz;
          sums[1][k % kOwn] += dz * (x - own[k % kOwn].mean);
        }
        if (pass.masked.data != nullptr) store<kWidth>(way.at(pass.masked, extent, i), masked);
      });
  write_partial_sums<kChannelsLast, kWidth>(way, extent, sums, pass.partials);
}

template <typename Sum>
struct GradientScalars {
  ChannelScalars<Sum> forward;
  Sum mean_gradient;  // Σdz / n
  Sum slope;          // Σdz (x − μ) / (n σ²)
};

template <typename Scalar, bool kChannelsLast, int kWidth, Mask kMask, bool kSecond, bool kAdd>
__global__ void __launch_bounds__(kThreads, 2)
    find_input_gradients(const BackwardPass<Scalar> pass, const Extent extent) {
  using Sum = SumOf<Scalar>;
  constexpr int kTurns = kSecond || kAdd ? 2 : 4;
  __shared__ double totals[kSums][kMostChannels];
  __shared__ GradientScalars<Sum> scalars[kMostChannels];
  const int width = Walk<kChannelsLast, kWidth>::of_block(extent);
  const auto begin = static_cast<std::int64_t>(blockIdx.x) * width;
  add_partial_sums(pass.partials, pass.parts, extent.channels, begin, width, totals);
  const auto channel = begin + threadIdx.x;
  if (threadIdx.x < width && channel < extent.channels) {
    const double inverse_deviation = pass.inverse_deviation[channel];
    const double dz = totals[0][threadIdx.x];
    const double dz_x = totals[1][threadIdx.x];
    scalars[threadIdx.x] = {
        scalars_of(pass, channel, extent.channels), static_cast<Sum>(dz / pass.elements),
        static_cast<Sum>(dz_x * inverse_deviation * inverse_deviation / pass.elements)};
    if (blockIdx.y == 0) {
      pass.dbias[channel] = static_cast<Sum>(dz);
      pass.dweight[channel] = static_cast<Sum>(dz_x * inverse_deviation);
    }
  }
  __syncthreads();

  const Walk<kChannelsLast, kWidth> way(extent);
  constexpr int kOwn = way.kChannels;
  GradientScalars<Sum> own[kOwn];
#pragma unroll
  for (int k = 0; k < kOwn; ++k) own[k] = scalars[way.local + k];
  const MaskedGradients<kMask, kSecond, Scalar, kWidth, kChannelsLast> gradients{pass, extent, way};
  typename decltype(gradients)::Loaded loaded[kTurns];
  Packed<Scalar, kWidth> packed_add[kTurns];
  for_each_run_of<kTurns>(
      way,
      [&](int turn, std::int64_t i) {
        gradients.fetch(loaded[turn], i);
        if constexpr (kAdd) packed_add[turn] = load_packed<kWidth>(way.at(pass.add, extent, i));
      },
      [&](int turn, std::int64_t i) {
        const auto elements = gradients.elements_of(loaded[turn]);
        Run<Scalar, kWidth> add;
        if constexpr (kAdd) add = unpacked<Scalar, kWidth>(packed_add[turn]);
        Run<Scalar, kWidth> dx;
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          const auto& channel = own[k % kOwn];
          const auto dz = static_cast<Sum>(gradients.value(elements, k, channel.forward));
          const auto x = static_cast<Sum>(elements.x.values[k]);
          auto value = channel.forward.scale *
                       (dz - channel.mean_gradient - (x - channel.forward.mean) * channel.slope);
          if constexpr (kAdd) value += static_cast<Sum>(add.values[k]);
          dx.values[k] = static_cast<Scalar>(value);
        }
        store<kWidth>(way.at(pass.dx, extent, i), dx);
      });
}

Shape shape_of(const torch::Tensor& x) {
  const bool channels_last = is_laid_out_by_channels(x, /*channels_last=*/true);
  return {x.size(0), x.size(1), x.size(2) * x.size(3), channels_last};
}

template <typename Scalar>
Values<const Scalar> read(const torch::Tensor& tensor, const Shape& shape) {
  if (!tensor.defined()) return {};
  TORCH_INTERNAL_ASSERT(is_laid_out_by_channels(tensor, shape.channels_last));
  return {tensor.data_ptr<Scalar>(), distance_of_rows(tensor, shape.channels_last)};
}

template <typename Scalar>
Values<Scalar> write(const torch::Tensor& tensor, const Shape& shape) {
  const auto values = read<Scalar>(tensor, shape);
  return {const_cast<Scalar*>(values.data), values.leading};
}

/// Whether all of them can be gone through in runs.
template <int kWidth, typename... Scalar>
bool can_be_read_in_runs(const Shape& shape, const Values<Scalar>&... values) {
  const auto together = shape.channels_last ? shape.channels : shape.pixels;
  return together % kWidth == 0 && ((values.leading % kWidth == 0) && ...) &&
         many_tensors::aligned_for_runs<kWidth>(values.data...);
}

/// Calls launch(channels_last, width) with both as compile-time constants.
template <typename Scalar, typename Launch>
void with_layout(const Shape& shape, bool in_runs, const Launch& launch) {
  using Yes = std::true_type;
  using No = std::false_type;
  using InRuns = std::integral_constant<int, kRun<Scalar>>;
  using OneByOne = std::integral_constant<int, 1>;
  if (shape.channels_last) {
    in_runs ? launch(Yes(), InRuns()) : launch(Yes(), OneByOne());
  } else {
    in_runs ? launch(No(), InRuns()) : launch(No(), OneByOne());
  }
}

template <typename Sum>
Sum* partial_sums(const Extent& extent, const torch::Tensor& like, torch::Tensor& kept) {
  kept = torch::empty({kSums, extent.parts, extent.channels}, like.options());
  return kept.data_ptr<Sum>();
}

template <typename Scalar>
void run_forward(ForwardPass<Scalar> pass, const Shape& shape, const torch::Tensor& weight) {
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const bool in_runs = can_be_read_in_runs<kRun<Scalar>>(shape, pass.x, pass.residual, pass.y);
  with_layout<Scalar>(shape, in_runs, [&](auto channels_last, auto width) {
    constexpr bool kLast = decltype(channels_last)::value;
    constexpr int kWidth = decltype(width)::value;
    const auto of_sums = extent_of_sums(shape, kWidth);
    const auto of_elements = extent_of_elements(shape, kWidth);
    torch::Tensor kept;
    pass.partials = partial_sums<SumOf<Scalar>>(of_sums, weight, kept);
    pass.parts = of_sums.parts;
    sum_inputs<Scalar, kLast, kWidth><<<of_sums.grid(), kThreads, 0, stream>>>(pass, of_sums);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    if (pass.residual.data != nullptr) {
      normalise<Scalar, kLast, kWidth, true>
          <<<of_elements.grid(), kThreads, 0, stream>>>(pass, of_elements);
    } else {
      normalise<Scalar, kLast, kWidth, false>
          <<<of_elements.grid(), kThreads, 0, stream>>>(pass, of_elements);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

/// Calls launch(mask, second) with compile-time constants: whether there is a second gradient.
template <typename Launch>
void with_gradients(Mask mask, bool second, const Launch& launch) {
  const auto with_mask = [&](auto constant) {
    second ? launch(constant, std::true_type()) : launch(constant, std::false_type());
  };
  switch (mask) {
    case Mask::Everywhere:
      return with_mask(std::integral_constant<Mask, Mask::Everywhere>());
    case Mask::AsOutput:
      return with_mask(std::integral_constant<Mask, Mask::AsOutput>());
    case Mask::AsInput:
      return with_mask(std::integral_constant<Mask, Mask::AsInput>());
  }
}

template <typename Scalar>
void run_backward(BackwardPass<Scalar> pass, const Shape& shape, Mask mask,
                  const torch::Tensor& weight) {
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const bool in_runs =
      can_be_read_in_runs<kRun<Scalar>>(shape, pass.gradient, pass.second_gradient, pass.x,
                                        pass.output, pass.add, pass.masked, pass.dx);
  with_layout<Scalar>(shape, in_runs, [&](auto channels_last, auto width) {
    constexpr bool kLast = decltype(channels_last)::value;
    constexpr int kWidth = decltype(width)::value;
    const auto of_sums = extent_of_sums(shape, kWidth);
    const auto of_elements = extent_of_elements(shape, kWidth);
    torch::Tensor kept;
    pass.partials = partial_sums<SumOf<Scalar>>(of_sums, weight, kept);
    pass.parts = of_sums.parts;
    with_gradients(mask, pass.second_gradient.data != nullptr, [&](auto constant, auto second) {
      sum_gradients<Scalar, kLast, kWidth, decltype(constant)::value, decltype(second)::value>
          <<<of_sums.grid(), kThreads, 0, stream>>>(pass, of_sums);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    if (pass.masked.data != nullptr) {  // the sum of both, and zero where the output was
      pass.gradient = {pass.masked.data, pass.masked.leading};
      pass.second_gradient = {};
      mask = Mask::Everywhere;
    }
    with_gradients(mask, pass.second_gradient.data != nullptr, [&](auto constant, auto second) {
      constexpr auto kMask = decltype(constant)::value;
      constexpr bool kSecond = decltype(second)::value;
      if (pass.add.data != nullptr) {
        find_input_gradients<Scalar, kLast, kWidth, kMask, kSecond, true>
            <<<of_elements.grid(), kThreads, 0, stream>>>(pass, of_elements);
      } else {
        find_input_gradients<Scalar, kLast, kWidth, kMask, kSecond, false>
            <<<of_elements.grid(), kThreads, 0, stream>>>(pass, of_elements);
      }
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

}  // namespace

NormalisedBatch batch_norm_forward_cuda(const torch::Tensor& x, const torch::Tensor& residual,
                                        const torch::Tensor& weight, const torch::Tensor& bias,
                                        const RunningStatistics& running, double eps, bool relu) {
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
        pass.elements = static_cast<double>(shape.images * shape.pixels);
        run_forward(pass, shape, weight);
      });
  return result;
}

BatchNormGradients batch_norm_backward_cuda(const BatchNormPass& of, const torch::Tensor& gradient,
                                            const torch::Tensor& second_gradient,
                                            const torch::Tensor& sum) {
  const c10::cuda::CUDAGuard device(of.x.device());
  const auto shape = shape_of(of.x);
  const auto format =
      shape.channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous;
  const auto empty = [&] { return torch::empty(of.x.sizes(), of.x.options(), format); };
  const auto mask = !of.relu ? Mask::Everywhere : of.has_residual ? Mask::AsOutput : Mask::AsInput;
  BatchNormGradients result;
  result.x = sum.defined() ? sum : empty();
  if (of.has_residual) {
    const bool is_the_gradient = !of.relu && !second_gradient.defined();
    result.residual = is_the_gradient ? gradient : empty();
  }
  result.weight = torch::empty_like(of.weight);
  result.bias = torch::empty_like(of.bias);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, of.x.scalar_type(), "batch_norm_backward_cuda", [&] {
        using Sum = SumOf<scalar_t>;
        BackwardPass<scalar_t> pass{};
        pass.gradient = read<scalar_t>(gradient, shape);
        pass.second_gradient = read<scalar_t>(second_gradient, shape);
        pass.x = read<scalar_t>(of.x, shape);
        if (mask == Mask::AsOutput) pass.output = read<scalar_t>(of.output, shape);
        pass.add = read<scalar_t>(sum, shape);
        if (of.has_residual && !result.residual.is_same(gradient)) {
          pass.masked = write<scalar_t>(result.residual, shape);
        }
        pass.dx = write<scalar_t>(result.x, shape);
        pass.weight = of.weight.data_ptr<Sum>();
        pass.bias = of.bias.data_ptr<Sum>();
        pass.mean = of.mean.data_ptr<Sum>();
        pass.inverse_deviation = of.inverse_deviation.data_ptr<Sum>();
        pass.dweight = result.weight.data_ptr<Sum>();
        pass.dbias = result.bias.data_ptr<Sum>();
        pass.elements = static_cast<double>(shape.images * shape.pixels);
        run_backward(pass, shape, mask, of.weight);
      });
  return result;
}

}  // namespace adaact
