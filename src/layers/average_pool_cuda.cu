// A thread has neighbouring channels of one pixel: of the output forward, of the input backward.

#include "layers/average_pool_cuda.h"

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/runs.cuh"
#include "kernels/sum_dtype.h"
#include "layers/pixels.cuh"

namespace adaact {
namespace {

using many_tensors::load;
using many_tensors::Run;
using many_tensors::store;

/// Shapes as kernels go through them; channels in runs.
struct Pooling {
  std::int64_t count;  // of threads' work
  int channels;
  int height, width;                // of the images
  int pooled_height, pooled_width;  // of the means
  int size;
};

template <typename Scalar, int kWidth>
__global__ void __launch_bounds__(kPixelThreads)
    average(const Pooling pooling, const Scalar* images, Scalar* means) {
  using Sum = SumOf<Scalar>;
  const auto i = static_cast<std::int64_t>(blockIdx.x) * kPixelThreads + threadIdx.x;
  if (i >= pooling.count) return;
  const auto at = pixel_of(i, pooling.channels, pooling.pooled_height, pooling.pooled_width);
  const auto first = ((at.image * pooling.height + at.row * pooling.size) * pooling.width +
                      at.column * pooling.size) *
                         pooling.channels +
                     at.channel;
  Sum sums[kWidth] = {};
  for (int row = 0; row < pooling.size; ++row) {
    for (int column = 0; column < pooling.size; ++column) {
      const auto offset =
          first + (static_cast<std::int64_t>(row) * pooling.width + column) * pooling.channels;
      const auto run = load<kWidth>(images + offset * kWidth);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sums[k] += static_cast<Sum>(run.values[k]);
    }
  }
  Run<Scalar, kWidth> mean;
  const auto elements = static_cast<Sum>(pooling.size * pooling.size);
#pragma unroll
  for (int k = 0; k < kWidth; ++k) mean.values[k] = static_cast<Scalar>(sums[k] / elements);
  store<kWidth>(means + i * kWidth, mean);
}

template <typename Scalar, int kWidth>
__global__ void __launch_bounds__(kPixelThreads)
    spread(const Pooling pooling, const Scalar* gradient, Scalar* of_images) {
  using Sum = SumOf<Scalar>;
  const auto i = static_cast<std::int64_t>(blockIdx.x) * kPixelThreads + threadIdx.x;
  if (i >= pooling.count) return;
  const auto at = pixel_of(i, pooling.channels, pooling.height, pooling.width);
  const int row = at.row / pooling.size;
  const int column = at.column / pooling.size;
  Run<Scalar, kWidth> share{};
  if (row < pooling.pooled_height && column < pooling.pooled_width) {
    const auto from = ((at.image * pooling.pooled_height + row) * pooling.pooled_width + column) *
                          pooling.channels +
                      at.channel;
    const auto run = load<kWidth>(gradient + from * kWidth);
    const auto elements = static_cast<Sum>(pooling.size * pooling.size);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      share.values[k] = static_cast<Scalar>(static_cast<Sum>(run.values[k]) / elements);
    }
  }
  store<kWidth>(of_images + i * kWidth, share);
}

Pooling pooling_of(at::IntArrayRef shape, std::int64_t size, int width) {
  Pooling pooling{};
  pooling.channels = static_cast<int>(shape[1] / width);
  pooling.height = static_cast<int>(shape[2]);
  pooling.width = static_cast<int>(shape[3]);
  pooling.pooled_height = static_cast<int>(shape[2] / size);
  pooling.pooled_width = static_cast<int>(shape[3] / size);
  pooling.size = static_cast<int>(size);
  return pooling;
}

}  // namespace

torch::Tensor average_pool_forward_cuda(const torch::Tensor& images, std::int64_t size) {
  const c10::cuda::CUDAGuard device(images.device());
  const auto shape = images.sizes();
  auto means = torch::empty({shape[0], shape[1], shape[2] / size, shape[3] / size},
                            images.options(), torch::MemoryFormat::ChannelsLast);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, images.scalar_type(), "average_pool_forward_cuda", [&] {
        with_run<scalar_t>(shape[1], images.data_ptr(), means.data_ptr(), [&](auto width) {
          constexpr int kWidth = decltype(width)::value;
          auto pooling = pooling_of(shape, size, kWidth);
          pooling.count = means.numel() / kWidth;
          average<scalar_t, kWidth>
              <<<blocks_for(pooling.count), kPixelThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
                  pooling, images.data_ptr<scalar_t>(), means.data_ptr<scalar_t>());
        });
      });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return means;
}

torch::Tensor average_pool_backward_cuda(const torch::Tensor& gradient, at::IntArrayRef shape,
                                         std::int64_t size) {
  const c10::cuda::CUDAGuard device(gradient.device());
  auto of_images = torch::empty(shape, gradient.options(), torch::MemoryFormat::ChannelsLast);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, gradient.scalar_type(), "average_pool_backward_cuda", [&] {
        with_run<scalar_t>(shape[1], gradient.data_ptr(), of_images.data_ptr(), [&](auto width) {
          constexpr int kWidth = decltype(width)::value;
          auto pooling = pooling_of(shape, size, kWidth);
          pooling.count = of_images.numel() / kWidth;
          spread<scalar_t, kWidth>
              <<<blocks_for(pooling.count), kPixelThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
                  pooling, gradient.data_ptr<scalar_t>(), of_images.data_ptr<scalar_t>());
        });
      });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return of_images;
}

}  // namespace adaact
