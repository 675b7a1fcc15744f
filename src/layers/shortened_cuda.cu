#include "layers/shortened_cuda.h"

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "layers/pixels.cuh"

namespace adaact {
namespace {

using many_tensors::load;
using many_tensors::Run;
using many_tensors::store;

/// Channels are counted in runs.
struct Shortening {
  std::int64_t count;                             // of threads' work
  int channels, height, width;                    // of the images
  int short_channels, short_height, short_width;  // of what they are shortened to
  int stride;
  int before;
};

template <typename Scalar, int kWidth>
__global__ void __launch_bounds__(kPixelThreads)
    shorten(const Shortening of, const Scalar* images, Scalar* to) {
  const auto i = static_cast<std::int64_t>(blockIdx.x) * kPixelThreads + threadIdx.x;
  if (i >= of.count) return;
  const auto at = pixel_of(i, of.short_channels, of.short_height, of.short_width);
  const int channel = at.channel - of.before;
  Run<Scalar, kWidth> run{};
  if (channel >= 0 && channel < of.channels) {
    const auto from =
        ((at.image * of.height + at.row * of.stride) * of.width + at.column * of.stride) *
            of.channels +
        channel;
    run = load<kWidth>(images + from * kWidth);
  }
  store<kWidth>(to + i * kWidth, run);
}

template <typename Scalar, int kWidth>
__global__ void __launch_bounds__(kPixelThreads)
    lengthen(const Shortening of, const Scalar* gradient, Scalar* to) {
  const auto i = static_cast<std::int64_t>(blockIdx.x) * kPixelThreads + threadIdx.x;
  if (i >= of.count) return;
  const auto at = pixel_of(i, of.channels, of.height, of.width);
  Run<Scalar, kWidth> run{};
  if (at.row % of.stride == 0 && at.column % of.stride == 0) {
    const auto from = ((at.image * of.short_height + at.row / of.stride) * of.short_width +
                       at.column / of.stride) *
                          of.short_channels +
                      at.channel + of.before;
    run = load<kWidth>(gradient + from * kWidth);
  }
  store<kWidth>(to + i * kWidth, run);
}

Shortening shortening_of(at::IntArrayRef images, at::IntArrayRef shortened, std::int64_t stride,
                         std::int64_t before, int width) {
  Shortening of{};
  of.channels = static_cast<int>(images[1] / width);
  of.height = static_cast<int>(images[2]);
  of.width = static_cast<int>(images[3]);
  of.short_channels = static_cast<int>(shortened[1] / width);
  of.short_height = static_cast<int>(shortened[2]);
  of.short_width = static_cast<int>(shortened[3]);
  of.stride = static_cast<int>(stride);
  of.before = static_cast<int>(before / width);
  return of;
}

/// A number that runs must divide if they divide all three.
std::int64_t together(std::int64_t channels, std::int64_t more, std::int64_t before) {
  return channels | more | before;
}

}  // namespace

torch::Tensor shorten_cuda(const torch::Tensor& images, std::int64_t stride, std::int64_t before,
                           std::int64_t after) {
  const c10::cuda::CUDAGuard device(images.device());
  const auto shape = images.sizes();
  auto shortened = torch::empty(
      {shape[0], before + shape[1] + after, ceil_div(shape[2], stride), ceil_div(shape[3], stride)},
      images.options(), torch::MemoryFormat::ChannelsLast);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, images.scalar_type(), "shorten_cuda", [&] {
        with_run<scalar_t>(
            together(shape[1], shortened.size(1), before), images.data_ptr(), shortened.data_ptr(),
            [&](auto width) {
              constexpr int kWidth = decltype(width)::value;
              auto of = shortening_of(shape, shortened.sizes(), stride, before, kWidth);
              of.count = shortened.numel() / kWidth;
              shorten<scalar_t, kWidth>
                  <<<blocks_for(of.count), kPixelThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
                      of, images.data_ptr<scalar_t>(), shortened.data_ptr<scalar_t>());
            });
      });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return shortened;
}

torch::Tensor lengthen_cuda(const torch::Tensor& gradient, at::IntArrayRef shape,
                            std::int64_t stride, std::int64_t before) {
  const c10::cuda::CUDAGuard device(gradient.device());
  auto of_images = torch::empty(shape, gradient.options(), torch::MemoryFormat::ChannelsLast);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, gradient.scalar_type(), "lengthen_cuda", [&] {
        with_run<scalar_t>(
            together(shape[1], gradient.size(1), before), gradient.data_ptr(), of_images.data_ptr(),
            [&](auto width) {
              constexpr int kWidth = decltype(width)::value;
              auto of = shortening_of(shape, gradient.sizes(), stride, before, kWidth);
              of.count = of_images.numel() / kWidth;
              lengthen<scalar_t, kWidth>
                  <<<blocks_for(of.count), kPixelThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
                      of, gradient.data_ptr<scalar_t>(), of_images.data_ptr<scalar_t>());
            });
      });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return of_images;
}

}  // namespace adaact
