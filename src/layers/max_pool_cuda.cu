// A thread has an output forward and an input backward, or as many neighbouring channels of one as 16 bytes hold. What
// windows share is read again from the cache.

#include "layers/max_pool_cuda.h"

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/ceil_div.h"
#include "kernels/runs.cuh"
#include "kernels/sum_dtype.h"

namespace adaact {
namespace {

using many_tensors::load_packed;
using many_tensors::Packed;
using many_tensors::Run;
using many_tensors::store;
using many_tensors::unpacked;

constexpr int kThreads = 256;

/// Images as the kernels see them: rows of channels. Where these are not last, every plane is an image of its own
/// with one channel.
struct Images {
  unsigned channels;
  int height, width;
  int rows, columns;  // of windows
  int kernel, stride, padding;
};

template <typename Scalar>
struct ForwardPass {
  const Scalar* x;
  Scalar* output;
  std::uint8_t* winners;  // null: not wanted
  Images images;
  unsigned threads;
};

template <typename Scalar>
struct BackwardPass {
  const Scalar* gradient;
  const std::uint8_t* winners;
  Scalar* dx;
  Images images;
  unsigned threads;
};

/// The pixel and the channels whose run a thread has, among those of height × width × channels.
template <int kWidth>
struct Place {
  unsigned channel, image;
  int row, column;

  __device__ Place(unsigned thread, unsigned channels, int height, int width) {
    const auto runs = channels / kWidth;
    channel = thread % runs * kWidth;
    thread /= runs;
    column = static_cast<int>(thread % static_cast<unsigned>(width));
    thread /= static_cast<unsigned>(width);
    row = static_cast<int>(thread % static_cast<unsigned>(height));
    image = thread / static_cast<unsigned>(height);
  }
};

/// Elements of an image, or of its windows, are addressed by numbers below 2³¹.
__device__ unsigned offset_of(const Images& images, unsigned image, int height, int width, int row,
                              int column, unsigned channel) {
  const auto pixel = (image * static_cast<unsigned>(height) + static_cast<unsigned>(row)) *
                         static_cast<unsigned>(width) +
                     static_cast<unsigned>(column);
  return pixel * images.channels + channel;
}

/// kKernel: the size of windows; 0: any. Elements of a row of the window that are known to be so many are read at
/// once.
template <typename Scalar, int kWidth, int kKernel>
__global__ void __launch_bounds__(kThreads) find_maxima(const ForwardPass<Scalar> pass) {
  using Sum = SumOf<Scalar>;
  constexpr int kAtOnce = kKernel > 0 ? kKernel : 1;
  const auto thread = blockIdx.x * kThreads + threadIdx.x;
  if (thread >= pass.threads) return;
  const auto& images = pass.images;
  const Place<kWidth> place(thread, images.channels, images.rows, images.columns);
  const int kernel = kKernel > 0 ? kKernel : images.kernel;
  const int top = place.row * images.stride - images.padding;
  const int left = place.column * images.stride - images.padding;
  const int first = (top < 0 ? -top : 0) * kernel + (left < 0 ? -left : 0);
  Run<Scalar, kWidth> best;
  Run<std::uint8_t, kWidth> winner;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    best.values[k] = static_cast<Scalar>(-std::numeric_limits<Sum>::infinity());
    winner.values[k] = static_cast<std::uint8_t>(first);
  }
#pragma unroll kAtOnce
  for (int i = 0; i < kernel; ++i) {
    const int row = top + i;
    if (row < 0 || row >= images.height) continue;
    const auto* x =
        pass.x + offset_of(images, place.image, images.height, images.width, row, 0, place.channel);
    for (int begin = 0; begin < kernel; begin += kAtOnce) {
      const int column = left + begin;
      Packed<Scalar, kWidth> packed[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (column + j >= 0 && column + j < images.width) {
          packed[j] = load_packed<kWidth>(x + static_cast<unsigned>(column + j) * images.channels);
        }
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (column + j < 0 || column + j >= images.width) continue;
        const auto run = unpacked<Scalar, kWidth>(packed[j]);
        const auto number = static_cast<std::uint8_t>(i * kernel + begin + j);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          const auto value = static_cast<Sum>(run.values[k]);
          if (value > static_cast<Sum>(best.values[k]) || isnan(value)) {
            best.values[k] = run.values[k];
            winner.values[k] = number;
          }
        }
      }
    }
  }
  const auto to = thread * kWidth;
  store<kWidth>(pass.output + to, best);
  if (pass.winners != nullptr) store<kWidth>(pass.winners + to, winner);
}

/// The first and the last window, along a side, that an element is in.
struct Reach {
  int first, last;

  __device__ Reach(int position, const Images& images, int windows) {
    const int from_padding = position + images.padding;
    first = from_padding < images.kernel ? 0 : (from_padding - images.kernel) / images.stride + 1;
    last = min(from_padding / images.stride, windows - 1);
  }
};

/// kWindows: how many an element is in at most, along a side; 1: any number, one after the other.
template <typename Scalar, int kWidth, int kWindows>
__global__ void __launch_bounds__(kThreads) gather_gradients(const BackwardPass<Scalar> pass) {
  using Sum = SumOf<Scalar>;
  const auto thread = blockIdx.x * kThreads + threadIdx.x;
  if (thread >= pass.threads) return;
  const auto& images = pass.images;
  const Place<kWidth> place(thread, images.channels, images.height, images.width);
  const Reach rows(place.row, images, images.rows);
  const Reach columns(place.column, images, images.columns);
  Sum sums[kWidth] = {};
  for (int first_row = rows.first; first_row <= rows.last; first_row += kWindows) {
    for (int first_column = columns.first; first_column <= columns.last; first_column += kWindows) {
      Packed<Scalar, kWidth> gradients[kWindows][kWindows];
      Packed<std::uint8_t, kWidth> winners[kWindows][kWindows];
#pragma unroll
      for (int i = 0; i < kWindows; ++i) {
#pragma unroll
        for (int j = 0; j < kWindows; ++j) {
          if (first_row + i > rows.last || first_column + j > columns.last) continue;
          const auto from = offset_of(images, place.image, images.rows, images.columns,
                                      first_row + i, first_column + j, place.channel);
          gradients[i][j] = load_packed<kWidth>(pass.gradient + from);
          winners[i][j] = load_packed<kWidth>(pass.winners + from);
        }
      }
#pragma unroll
      for (int i = 0; i < kWindows; ++i) {
#pragma unroll
        for (int j = 0; j < kWindows; ++j) {
          if (first_row + i > rows.last || first_column + j > columns.last) continue;
          const int row = place.row + images.padding - (first_row + i) * images.stride;
          const int column = place.column + images.padding - (first_column + j) * images.stride;
          const int own = row * images.kernel + column;
          const auto gradient = unpacked<Scalar, kWidth>(gradients[i][j]);
          const auto winner = unpacked<std::uint8_t, kWidth>(winners[i][j]);
#pragma unroll
          for (int k = 0; k < kWidth; ++k) {
            if (winner.values[k] == own) sums[k] += static_cast<Sum>(gradient.values[k]);
          }
        }
      }
    }
  }
  Run<Scalar, kWidth> dx;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) dx.values[k] = static_cast<Scalar>(sums[k]);
  store<kWidth>(pass.dx + thread * kWidth, dx);
}

Images images_of(std::int64_t channels, bool channels_last, const PoolWindow& window,
                 std::int64_t height, std::int64_t width) {
  Images images{};
  images.channels = static_cast<unsigned>(channels_last ? channels : 1);
  images.height = static_cast<int>(height);
  images.width = static_cast<int>(width);
  images.rows = static_cast<int>(window.count(height));
  images.columns = static_cast<int>(window.count(width));
  images.kernel = static_cast<int>(window.kernel);
  images.stride = static_cast<int>(window.stride);
  images.padding = static_cast<int>(window.padding);
  return images;
}

torch::MemoryFormat format_of(bool channels_last) {
  return channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous;
}

template <typename Scalar>
constexpr int kRun = 16 / sizeof(Scalar);

/// Calls launch(width) with a compile-time constant.
template <typename Scalar, typename Launch>
void with_width(bool in_runs, const Launch& launch) {
  in_runs ? launch(std::integral_constant<int, kRun<Scalar>>())
          : launch(std::integral_constant<int, 1>());
}

template <int kWidth, typename Pass>
unsigned blocks_for(Pass& pass, std::int64_t elements) {
  pass.threads = static_cast<unsigned>(elements / kWidth);
  return static_cast<unsigned>(ceil_div(pass.threads, kThreads));
}

}  // namespace

Pooled max_pool_forward_cuda(const torch::Tensor& x, const PoolWindow& window, bool with_winners) {
  const c10::cuda::CUDAGuard device(x.device());
  const bool channels_last = !x.is_contiguous();
  const auto images = images_of(x.size(1), channels_last, window, x.size(2), x.size(3));
  const std::vector<std::int64_t> sizes{x.size(0), x.size(1), images.rows, images.columns};
  const auto options = x.options().requires_grad(false);
  Pooled result;
  result.output = torch::empty(sizes, options, format_of(channels_last));
  if (with_winners) {
    result.winners = torch::empty(sizes, options.dtype(torch::kByte), format_of(channels_last));
  }
  const auto stream = c10::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, x.scalar_type(), "max_pool_forward_cuda", [&] {
        ForwardPass<scalar_t> pass{};
        pass.x = x.data_ptr<scalar_t>();
        pass.output = result.output.data_ptr<scalar_t>();
        if (with_winners) pass.winners = result.winners.data_ptr<std::uint8_t>();
        pass.images = images;
        constexpr int kWide = kRun<scalar_t>;
        const bool in_runs = images.channels % kWide == 0 && many_tensors::aligned_for_runs<kWide>(
                                                                 pass.x, pass.output, pass.winners);
        with_width<scalar_t>(in_runs, [&](auto width) {
          constexpr int kWidth = decltype(width)::value;
          const auto blocks = blocks_for<kWidth>(pass, result.output.numel());
          if (images.kernel == 3) {
            find_maxima<scalar_t, kWidth, 3><<<blocks, kThreads, 0, stream>>>(pass);
          } else {
            find_maxima<scalar_t, kWidth, 0><<<blocks, kThreads, 0, stream>>>(pass);
          }
          C10_CUDA_KERNEL_LAUNCH_CHECK();
        });
      });
  return result;
}

torch::Tensor max_pool_backward_cuda(const torch::Tensor& gradient, const torch::Tensor& winners,
                                     const PoolWindow& window, std::int64_t height,
                                     std::int64_t width) {
  const c10::cuda::CUDAGuard device(gradient.device());
  const bool channels_last = !winners.is_contiguous();
  const auto images = images_of(winners.size(1), channels_last, window, height, width);
  auto dx = torch::empty({winners.size(0), winners.size(1), height, width},
                         gradient.options().requires_grad(false), format_of(channels_last));
  const auto stream = c10::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, gradient.scalar_type(), "max_pool_backward_cuda", [&] {
        BackwardPass<scalar_t> pass{};
        pass.gradient = gradient.data_ptr<scalar_t>();
        pass.winners = winners.data_ptr<std::uint8_t>();
        pass.dx = dx.data_ptr<scalar_t>();
        pass.images = images;
        constexpr int kWide = kRun<scalar_t>;
        const bool in_runs =
            images.channels % kWide == 0 &&
            many_tensors::aligned_for_runs<kWide>(pass.gradient, pass.winners, pass.dx);
        with_width<scalar_t>(in_runs, [&](auto run) {
          constexpr int kWidth = decltype(run)::value;
          const auto blocks = blocks_for<kWidth>(pass, dx.numel());
          if (ceil_div(images.kernel, images.stride) == 2) {
            gather_gradients<scalar_t, kWidth, 2><<<blocks, kThreads, 0, stream>>>(pass);
          } else {
            gather_gradients<scalar_t, kWidth, 1><<<blocks, kThreads, 0, stream>>>(pass);
          }
          C10_CUDA_KERNEL_LAUNCH_CHECK();
        });
      });
  return dx;
}

}  // namespace adaact
