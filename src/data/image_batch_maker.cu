// Compiled without the fusing of products and sums: levels are rounded as on the CPU.

#include "data/image_batch_maker.h"

#include <algorithm>
#include <cstring>

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "data/image_batch_steps.h"
#include "kernels/ceil_div.h"

namespace adaact {
namespace {

constexpr int kThreads = 256;
constexpr int kCountingThreads = 1024;
constexpr std::int64_t kBlocks = 4096;  // together: enough for any GPU to be full
constexpr std::int64_t kMostBlocksOfImage = 256;
constexpr std::int64_t kMostGridRows = 65535;

/// Block (i, j) takes elements of image j; of more images than a grid has rows, of every 65535th.
template <typename Work>
__global__ void __launch_bounds__(kThreads)
    do_work(std::int64_t images, const __grid_constant__ Work work) {
  for (std::int64_t image = blockIdx.y; image < images; image += gridDim.y) {
    const int elements = work.elements(image);
    const int step = static_cast<int>(gridDim.x) * kThreads;
    for (int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
         i < elements; i += step) {
      work(image, i);
    }
  }
}

/// Block (c, j) counts the levels of plane c of image j. Whole numbers: the order does not matter.
__global__ void __launch_bounds__(kCountingThreads)
    count_levels(std::int64_t images, const __grid_constant__ CountedLevels levels,
                 std::int32_t* counts) {
  __shared__ std::int32_t of_plane[kLevels];
  const int channel = static_cast<int>(blockIdx.x);
  for (std::int64_t image = blockIdx.y; image < images; image += gridDim.y) {
    if (!levels.are_wanted(image, channel)) continue;
    for (int i = static_cast<int>(threadIdx.x); i < kLevels; i += kCountingThreads) of_plane[i] = 0;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < levels.in.pixels(); i += kCountingThreads) {
      atomicAdd(&of_plane[levels.at(image, channel, i)], 1);
    }
    __syncthreads();
    auto* out = counts + (image * 3 + channel) * kLevels;
    for (int i = static_cast<int>(threadIdx.x); i < kLevels; i += kCountingThreads) {
      out[i] = of_plane[i];
    }
    __syncthreads();  // before the next image's are zeroed
  }
}

class LaunchExecutor {
 public:
  explicit LaunchExecutor(torch::Device device) : device_(device) {}

  torch::Device device() const { return device_; }

  template <typename Work>
  void each(std::int64_t images, const Work& work) const {
    launch(images, [&](dim3 grid, cudaStream_t stream) {
      do_work<Work><<<grid, kThreads, 0, stream>>>(images, work);
    });
  }

  void count(std::int64_t images, const CountedLevels& levels, std::int32_t* counts) const {
    launch(images, [&](dim3 grid, cudaStream_t stream) {
      grid.x = 3;
      count_levels<<<grid, kCountingThreads, 0, stream>>>(images, levels, counts);
    });
  }

  /// By pinned memory, which LibTorch's allocator keeps until the copy is made.
  template <typename T>
  torch::Tensor copy(const std::vector<T>& numbers) const {
    const auto bytes = numbers.size() * sizeof(T);
    if (bytes == 0) return {};
    const auto here = torch::empty({static_cast<std::int64_t>(bytes)},
                                   torch::dtype(torch::kByte).pinned_memory(true));
    std::memcpy(here.data_ptr(), numbers.data(), bytes);
    return here.to(device_, /*non_blocking=*/true);
  }

 private:
  template <typename Launch>
  void launch(std::int64_t images, const Launch& launch) const {
    if (images == 0) return;
    const c10::cuda::CUDAGuard guard(device_);
    const auto of_image = std::min(ceil_div(kBlocks, images), kMostBlocksOfImage);
    const auto rows = std::min(images, kMostGridRows);
    launch(dim3(static_cast<unsigned>(of_image), static_cast<unsigned>(rows)),
           c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  const torch::Device device_;
};

}  // namespace

std::unique_ptr<ImageBatchMaker> image_batch_maker_cuda(const ImageBatchFormat& format,
                                                        torch::Device device) {
  return std::make_unique<ImageBatchSteps<LaunchExecutor>>(format, LaunchExecutor(device));
}

}  // namespace adaact
