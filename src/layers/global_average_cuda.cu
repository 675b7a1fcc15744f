#include "layers/global_average_cuda.h"

#include <type_traits>

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/ceil_div.h"
#include "kernels/runs.cuh"
#include "kernels/sum_dtype.h"

namespace adaact {
namespace {

using many_tensors::load;
using many_tensors::Run;
using many_tensors::store;

constexpr int kThreads = 256;

/// A thread has a run of the result. `runs`: of a pixel's channels, channels last, and of an image's pixels
/// otherwise.
template <typename Scalar, bool kChannelsLast, int kWidth>
__global__ void __launch_bounds__(kThreads)
    spread_gradient(const Scalar* gradient, Scalar* result, unsigned threads, unsigned runs,
                    unsigned pixels, SumOf<Scalar> share) {
  using Sum = SumOf<Scalar>;
  const auto thread = blockIdx.x * kThreads + threadIdx.x;
  if (thread >= threads) return;
  Run<Scalar, kWidth> run;
  if constexpr (kChannelsLast) {
    const auto image = thread / runs / pixels;
    run = load<kWidth>(gradient + (image * runs + thread % runs) * kWidth);
  } else {
    const auto value = gradient[thread / runs];
    for (auto& pixel : run.values) pixel = value;
  }
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    run.values[k] = static_cast<Scalar>(static_cast<Sum>(run.values[k]) * share);
  }
  store<kWidth>(result + thread * kWidth, run);
}

}  // namespace

torch::Tensor global_average_backward_cuda(const torch::Tensor& gradient, std::int64_t height,
                                           std::int64_t width, bool channels_last) {
  const c10::cuda::CUDAGuard device(gradient.device());
  auto result = torch::empty(
      {gradient.size(0), gradient.size(1), height, width}, gradient.options().requires_grad(false),
      channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous);
  const auto pixels = height * width;
  const auto together = channels_last ? gradient.size(1) : pixels;
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, gradient.scalar_type(), "global_average_backward_cuda", [&] {
        using Sum = SumOf<scalar_t>;
        const auto* from = gradient.data_ptr<scalar_t>();
        auto* to = result.data_ptr<scalar_t>();
        const auto launch = [&](auto last, auto run) {
          constexpr int kWidth = decltype(run)::value;
          const auto threads = result.numel() / kWidth;
          spread_gradient<scalar_t, decltype(last)::value, kWidth>
              <<<static_cast<unsigned>(ceil_div(threads, kThreads)), kThreads, 0,
                 c10::cuda::getCurrentCUDAStream()>>>(
                  from, to, static_cast<unsigned>(threads),
                  static_cast<unsigned>(together / kWidth), static_cast<unsigned>(pixels),
                  static_cast<Sum>(1) / static_cast<Sum>(pixels));
          C10_CUDA_KERNEL_LAUNCH_CHECK();
        };
        constexpr int kWide = 16 / sizeof(scalar_t);
        const bool in_runs =
            together % kWide == 0 && many_tensors::aligned_for_runs<kWide>(from, to);
        using InRuns = std::integral_constant<int, kWide>;
        using OneByOne = std::integral_constant<int, 1>;
        if (channels_last) {
          in_runs ? launch(std::true_type(), InRuns()) : launch(std::true_type(), OneByOne());
        } else {
          in_runs ? launch(std::false_type(), InRuns()) : launch(std::false_type(), OneByOne());
        }
      });
  return result;
}

}  // namespace adaact
