#pragma once

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/types.h>

#include "kernels/ceil_div.h"

namespace adaact {

constexpr int kGroupsOfParts = 16;

/// A block has 32 channels of one sum.
template <typename Scalar>
__global__ void __launch_bounds__(32 * kGroupsOfParts)
    add_parts(const Scalar* partials, int parts, int channels, Scalar* sums) {
  __shared__ double of_group[kGroupsOfParts][32];
  const int channel = blockIdx.x * 32 + threadIdx.x;
  double sum = 0.0;
  if (channel < channels) {
    const auto* from =
        partials + static_cast<std::int64_t>(blockIdx.y) * parts * channels + channel;
#pragma unroll 8
    for (int part = threadIdx.y; part < parts; part += kGroupsOfParts) {
      sum += from[static_cast<std::int64_t>(part) * channels];
    }
  }
  of_group[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || channel >= channels) return;
  sum = 0.0;
  for (const auto& group : of_group) sum += group[threadIdx.x];
  sums[blockIdx.y * channels + channel] = static_cast<Scalar>(sum);
}

/// (sums, parts, channels) → (sums, channels), in a fixed order.
inline torch::Tensor sum_of_parts(const torch::Tensor& partials) {
  const auto channels = partials.size(2);
  auto sums = torch::empty({partials.size(0), channels}, partials.options());
  const dim3 grid(static_cast<unsigned>(ceil_div(channels, 32)),
                  static_cast<unsigned>(partials.size(0)));
  AT_DISPATCH_FLOATING_TYPES(partials.scalar_type(), "sum_of_parts", [&] {
    add_parts<scalar_t><<<grid, dim3(32, kGroupsOfParts), 0, c10::cuda::getCurrentCUDAStream()>>>(
        partials.data_ptr<scalar_t>(), static_cast<int>(partials.size(1)),
        static_cast<int>(channels), sums.data_ptr<scalar_t>());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return sums;
}

}  // namespace adaact
