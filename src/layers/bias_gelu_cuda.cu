#include "layers/bias_gelu_cuda.h"

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

/// The normal distribution function and its density.
template <typename Sum>
struct Normal {
  Sum distribution, density;
};

template <typename Scalar, typename Sum>
__device__ Normal<Sum> normal_at(Sum x) {
  constexpr Sum kRootHalf = 0.70710678118654752440;
  constexpr Sum kDensityAtZero = 0.39894228040143267794;
  if constexpr (sizeof(Scalar) >= 4) {
    return {Sum(0.5) * (1 + erf(x * kRootHalf)), exp(Sum(-0.5) * x * x) * kDensityAtZero};
  } else {
    // Abramowitz and Stegun 7.1.26, within 1.5e-7 of erf, far less than what the output is rounded by. erf() takes
    // longer than memory does, and this exponential is that of the density too.
    const auto exponential = __expf(-0.5F * x * x);
    const auto t = __fdividef(1.0F, fmaf(0.3275911F, fabsf(x) * kRootHalf, 1.0F));
    auto tail = fmaf(1.061405429F, t, -1.453152027F);
    tail = fmaf(tail, t, 1.421413741F);
    tail = fmaf(tail, t, -0.284496736F);
    tail = fmaf(tail, t, 0.254829592F);
    const auto beyond = 0.5F * tail * t * exponential;  // of the distribution, beyond |x|
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

template <typename Scalar, int kWidth>
__global__ void __launch_bounds__(kThreads, 2)
    bias_gelu(const Pass<Scalar> pass, const Extent extent) {
  using Sum = SumOf<Scalar>;
  constexpr int kTurns = 4;
  const Walk<true, kWidth> way(extent);
  Sum bias[kWidth];
  read_bias(pass.bias, way, extent, bias);
  Packed<Scalar, kWidth> packed[kTurns];
  for_each_run_of<kTurns>(
      way,
      [&](int turn, std::int64_t i) {
        packed[turn] = load_packed<kWidth>(way.at(pass.x, extent, i));
      },
      [&](int turn, std::int64_t i) {
        const auto x = unpacked<Scalar, kWidth>(packed[turn]);
        Run<Scalar, kWidth> y;
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          const auto value = static_cast<Sum>(x.values[k]) + bias[k];
          y.values[k] = static_cast<Scalar>(value * normal_at<Scalar>(value).distribution);
        }
        store<kWidth>(way.at(pass.result, extent, i), y);
      });
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
  for_each_run_of<kTurns>(
      way,
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

template <typename Scalar, typename Launch>
void with_width(const Pass<Scalar>& pass, std::int64_t channels, const Launch& launch) {
  constexpr int kWide = kRun<Scalar>;
  const bool in_runs =
      channels % kWide == 0 &&
      many_tensors::aligned_for_runs<kWide>(pass.x.data, pass.gradient.data, pass.result.data);
  in_runs ? launch(std::integral_constant<int, kWide>()) : launch(std::integral_constant<int, 1>());
}

}  // namespace

torch::Tensor bias_gelu_forward_cuda(const torch::Tensor& given_x, const torch::Tensor& bias) {
  const c10::cuda::CUDAGuard device(given_x.device());
  const auto x = given_x.contiguous();
  const auto shape = shape_of(x);
  const auto result = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, x.scalar_type(), "bias_gelu_forward_cuda", [&] {
        Pass<scalar_t> pass{};
        pass.x = {x.data_ptr<scalar_t>(), shape.channels};
        pass.result = {result.data_ptr<scalar_t>(), shape.channels};
        pass.bias = bias.data_ptr<SumOf<scalar_t>>();
        with_width(pass, shape.channels, [&](auto width) {
          constexpr int kWidth = decltype(width)::value;
          const auto extent = extent_of_elements(shape, kWidth);
          bias_gelu<scalar_t, kWidth>
              <<<extent.grid(), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(pass, extent);
          C10_CUDA_KERNEL_LAUNCH_CHECK();
        });
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
        with_width(pass, shape.channels, [&](auto width) {
          constexpr int kWidth = decltype(width)::value;
          const auto extent = extent_of_sums(shape, kWidth);
          const auto partials =
              torch::empty({kSums, extent.parts, extent.channels}, bias.options());
          pass.partials = partials.template data_ptr<Sum>();
          bias_gelu_gradients<scalar_t, kWidth>
              <<<extent.grid(), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(pass, extent);
          C10_CUDA_KERNEL_LAUNCH_CHECK();
          result.bias = sum_of_parts(partials.narrow(0, 0, 1)).view({shape.channels});
        });
      });
  return result;
}

}  // namespace adaact
