// Bytes decide, and for small tensors the time until the first of them is there: x and the gradient are read twice, and
// the second kernel has its first part of them before the first kernel's sums. What can be told again from what is read
// anyway (where the output was positive) is not kept by the forward pass.

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

/// How a kernel knows where the output was positive: it need not, or by the output, or by the input.
enum class Mask : std::uint8_t { Everywhere, AsOutput, AsInput };

template <typename Scalar>
struct BackwardPass {
  using Sum = SumOf<Scalar>;
  Values<const Scalar> gradient, second_gradient, x, output, add;
  Values<Scalar> masked, dx;  // masked: the gradient of what ReLU was taken of
  const Sum *weight, *bias, *mean, *inverse_deviation;
  Sum *dweight, *dbias;
  bool is_masked;  // the gradient is what the kernel before writes
  Sum* partials;   // of dz and dz (x − μ)
  int parts;
  double share;  // of an element in its channel's mean
};
/// How many runs of each tensor are under way at a time: as many as registers hold.
template <typename Scalar>
constexpr int turns_of(bool of_more_tensors) {
  return (of_more_tensors ? 2 : 4) / (sizeof(Scalar) > 2 ? 2 : 1);
}

/// The gradient of what ReLU was taken of.
template <Mask kMask, bool kSecond, typename Scalar, int kWidth, bool kChannelsLast>
struct MaskedGradients {
  using Sum = SumOf<Scalar>;

  const BackwardPass<Scalar>& pass;
  const Extent& extent;
  const Walk<kChannelsLast, kWidth>& way;

  /// Values as memory has them. Unpacked they would take a register each while they wait.
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

/// Adds the sums of one run and returns it as ReLU lets it through.
template <typename Gradients, typename Scalar, int kWidth, int kOwn>
__device__ Run<Scalar, kWidth> add_gradient(const typename Gradients::Elements& elements,
                                            const ChannelScalars<SumOf<Scalar>> (&own)[kOwn],
                                            SumOf<Scalar> (&sums)[kSums][kOwn]) {
  using Sum = SumOf<Scalar>;
  Run<Scalar, kWidth> masked;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    masked.values[k] = Gradients::value(elements, k, own[k % kOwn]);
    const auto dz = static_cast<Sum>(masked.values[k]);
    const auto x = static_cast<Sum>(elements.x.values[k]);
    sums[0][k % kOwn] += dz;
    sums[1][k % kOwn] += dz * (x - own[k % kOwn].mean);
  }
  return masked;
}

template <typename Scalar, bool kChannelsLast, int kWidth, Mask kMask, bool kSecond>
__global__ void __launch_bounds__(kThreads, 2)
    sum_gradients(const BackwardPass<Scalar> pass, const Extent extent) {
  using Sum = SumOf<Scalar>;
  using Gradients = MaskedGradients<kMask, kSecond, Scalar, kWidth, kChannelsLast>;
  constexpr int kTurns = turns_of<Scalar>(kSecond);
  let_next_kernel_start();
  const Walk<kChannelsLast, kWidth> way(extent);
  constexpr int kOwn = way.kChannels;
  ChannelScalars<Sum> own[kOwn];
#pragma unroll
  for (int k = 0; k < kOwn; ++k) own[k] = scalars_of(pass, way.channel + k, extent.channels);
  Sum sums[kSums][kOwn] = {};
  const Gradients gradients{pass, extent, way};
  typename Gradients::Loaded loaded[kTurns];
  for_each_run_from<kTurns>(
      way, way.first, [&](int turn, std::int64_t i) { gradients.fetch(loaded[turn], i); },
      [&](int turn, std::int64_t i) {
        const auto masked = add_gradient<Gradients, Scalar, kWidth>(
            Gradients::elements_of(loaded[turn]), own, sums);
        if (pass.masked.data != nullptr) store<kWidth>(way.at(pass.masked, extent, i), masked);
      });
  write_partial_sums(way, extent, sums, pass.partials);
}

template <typename Sum>
struct GradientScalars {
  ChannelScalars<Sum> forward;
  Sum mean_gradient;  // Σdz / n
  Sum slope;          // Σdz (x − μ) / (n σ²)
};

/// Adds up the partial sums of all blocks for the channels of this one. Writes the gradients of γ and β.
template <typename Scalar, bool kChannelsLast, int kWidth>
__device__ void find_gradient_scalars(const BackwardPass<Scalar>& pass, const Extent& extent,
                                      GradientScalars<SumOf<Scalar>>* scalars) {
  using Sum = SumOf<Scalar>;
  __shared__ double totals[kSums][kMostChannels];
  const int width = Walk<kChannelsLast, kWidth>::of_block(extent);
  const auto begin = static_cast<std::int64_t>(blockIdx.x) * width;
  const auto channel = begin + threadIdx.x;
  const bool is_one = threadIdx.x < width && channel < extent.channels;
  // Loads that need not wait come first.
  const auto forward = scalars_of(pass, is_one ? channel : extent.channels, extent.channels);
  const double inverse_deviation = is_one ? pass.inverse_deviation[channel] : Sum(0);
  wait_for_kernel_before();
  add_partial_sums(pass.partials, pass.parts, extent.channels, begin, width, totals);
  if (is_one) {
    const double dz = totals[0][threadIdx.x];
    const double dz_x = totals[1][threadIdx.x];
    scalars[threadIdx.x] = {
        forward, static_cast<Sum>(dz * pass.share),
        static_cast<Sum>(dz_x * inverse_deviation * inverse_deviation * pass.share)};
    if (blockIdx.y == 0) {
      pass.dbias[channel] = static_cast<Sum>(dz);
      pass.dweight[channel] = static_cast<Sum>(dz_x * inverse_deviation);
    }
  }
  __syncthreads();
}

template <typename Sum>
__device__ Sum input_gradient(Sum dz, Sum x, const GradientScalars<Sum>& channel) {
  return channel.forward.scale *
         (dz - channel.mean_gradient - (x - channel.forward.mean) * channel.slope);
}

template <typename Scalar, bool kChannelsLast, int kWidth, Mask kMask, bool kSecond, bool kAdd>
__global__ void __launch_bounds__(kThreads, 2)
    find_input_gradients(const BackwardPass<Scalar> pass, const Extent extent) {
  using Sum = SumOf<Scalar>;
  constexpr int kTurns = turns_of<Scalar>(kSecond || kAdd);
  __shared__ GradientScalars<Sum> scalars[kMostChannels];
  if (pass.is_masked) wait_for_kernel_before();  // which writes the gradient
  const Walk<kChannelsLast, kWidth> way(extent);
  constexpr int kOwn = way.kChannels;
  GradientScalars<Sum> own[kOwn];
  const MaskedGradients<kMask, kSecond, Scalar, kWidth, kChannelsLast> gradients{pass, extent, way};
  typename decltype(gradients)::Loaded loaded[kTurns];
  Packed<Scalar, kWidth> packed_add[kTurns];
  const auto load = [&](int turn, std::int64_t i) {
    gradients.fetch(loaded[turn], i);
    if constexpr (kAdd) packed_add[turn] = load_packed<kWidth>(way.at(pass.add, extent, i));
  };
  const auto use = [&](int turn, std::int64_t i) {
    const auto elements = gradients.elements_of(loaded[turn]);
    Run<Scalar, kWidth> add;
    if constexpr (kAdd) add = unpacked<Scalar, kWidth>(packed_add[turn]);
    Run<Scalar, kWidth> dx;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const auto& channel = own[k % kOwn];
      auto value = input_gradient(static_cast<Sum>(gradients.value(elements, k, channel.forward)),
                                  static_cast<Sum>(elements.x.values[k]), channel);
      if constexpr (kAdd) value += static_cast<Sum>(add.values[k]);
      dx.values[k] = static_cast<Scalar>(value);
    }
    store<kWidth>(way.at(pass.dx, extent, i), dx);
  };
  const auto prepare = [&] {
    find_gradient_scalars<Scalar, kChannelsLast, kWidth>(pass, extent, scalars);
#pragma unroll
    for (int k = 0; k < kOwn; ++k) own[k] = scalars[way.local + k];
  };
  for_some_runs_of<kTurns>(way, way.first, load, prepare, use);
  for_each_run_from<kTurns>(way, way.first + kTurns * way.step, load, use);
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
  const bool in_runs =
      can_be_read_in_runs<kRun<Scalar>>(shape, pass.gradient, pass.second_gradient, pass.x,
                                        pass.output, pass.add, pass.masked, pass.dx);
  with_layout<Scalar>(shape, in_runs, [&](auto channels_last, auto width) {
    constexpr bool kLast = decltype(channels_last)::value;
    constexpr int kWidth = decltype(width)::value;
    const auto of_sums = extent_of_sums(shape, kWidth);
    const auto of_elements = extent_of_elements(shape, kWidth);
    const auto partials = empty_partial_sums(of_sums, weight);
    pass.partials = partials.template data_ptr<SumOf<Scalar>>();
    pass.parts = of_sums.parts;
    with_gradients(mask, pass.second_gradient.data != nullptr, [&](auto constant, auto second) {
      sum_gradients<Scalar, kLast, kWidth, decltype(constant)::value, decltype(second)::value>
          <<<of_sums.grid(), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(pass, of_sums);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    if (pass.masked.data != nullptr) {  // the sum of both, and zero where the output was
      pass.gradient = {pass.masked.data, pass.masked.leading};
      pass.second_gradient = {};
      pass.is_masked = true;
      mask = Mask::Everywhere;
    }
    with_gradients(mask, pass.second_gradient.data != nullptr, [&](auto constant, auto second) {
      constexpr auto kMask = decltype(constant)::value;
      constexpr bool kSecond = decltype(second)::value;
      if (pass.add.data == nullptr) {
        launch_dependent(find_input_gradients<Scalar, kLast, kWidth, kMask, kSecond, false>, pass,
                         of_elements);
      } else if constexpr (!kSecond) {  // what goes around has no second gradient
        launch_dependent(find_input_gradients<Scalar, kLast, kWidth, kMask, kSecond, true>, pass,
                         of_elements);
      }
    });
  });
}

}  // namespace
BatchNormGradients batch_norm_backward_cuda(const BatchNormPass& of, const torch::Tensor& gradient,
                                            const torch::Tensor& second_gradient,
                                            const torch::Tensor& sum, bool may_overwrite_gradient) {
  const c10::cuda::CUDAGuard device(of.x.device());
  const auto shape = shape_of(of.x);
  const auto format =
      shape.channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous;
  const auto empty = [&] { return torch::empty(of.x.sizes(), of.x.options(), format); };
  const auto mask = !of.relu ? Mask::Everywhere : of.has_residual ? Mask::AsOutput : Mask::AsInput;
  // A thread has read all that it needs of an element before it writes it.
  const auto over_gradient = [&] { return may_overwrite_gradient ? gradient : empty(); };
  BatchNormGradients result;
  const bool residual_is_gradient = of.has_residual && !of.relu && !second_gradient.defined();
  if (of.has_residual) result.residual = residual_is_gradient ? gradient : over_gradient();
  result.x = sum.defined() ? sum : of.has_residual ? empty() : over_gradient();
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
        if (of.has_residual && !residual_is_gradient) {
          pass.masked = write<scalar_t>(result.residual, shape);
        }
        pass.dx = write<scalar_t>(result.x, shape);
        pass.weight = of.weight.data_ptr<Sum>();
        pass.bias = of.bias.data_ptr<Sum>();
        pass.mean = of.mean.data_ptr<Sum>();
        pass.inverse_deviation = of.inverse_deviation.data_ptr<Sum>();
        pass.dweight = result.weight.data_ptr<Sum>();
        pass.dbias = result.bias.data_ptr<Sum>();
        pass.share = 1.0 / static_cast<double>(shape.images * shape.pixels);
        run_backward(pass, shape, mask, of.weight);
      });
  return result;
}

}  // namespace adaact
