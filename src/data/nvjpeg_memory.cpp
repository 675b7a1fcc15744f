#include "data/nvjpeg_memory.h"

#include <exception>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

namespace adaact {
namespace {

constexpr int kGiven = 0;
constexpr int kRefused = 1;

/// What nvJPEG calls must not throw.
template <class Work>
int whether_given(const Work& work) {
  try {
    work();
    return kGiven;
  } catch (const std::exception&) {
    return kRefused;
  }
}

int give_gpu_memory(void* stream, void** memory, std::size_t bytes, cudaStream_t /*of_caller*/) {
  return whether_given([&] {
    const auto& own = *static_cast<const c10::cuda::CUDAStream*>(stream);
    const c10::cuda::CUDAGuard guard(own.device_index());
    *memory = c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(bytes, own.stream());
  });
}

int take_gpu_memory(void* /*stream*/, void* memory, std::size_t /*bytes*/,
                    cudaStream_t /*of_caller*/) {
  return whether_given([&] { c10::cuda::CUDACachingAllocator::raw_delete(memory); });
}

int give_pinned_memory(void* /*context*/, void** memory, std::size_t bytes,
                       cudaStream_t /*of_caller*/) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault) == cudaSuccess ? kGiven : kRefused;
}

int take_pinned_memory(void* /*context*/, void* memory, std::size_t /*bytes*/,
                       cudaStream_t /*of_caller*/) {
  return cudaFreeHost(memory) == cudaSuccess ? kGiven : kRefused;
}

}  // namespace

NvjpegMemory::NvjpegMemory(c10::cuda::CUDAStream stream)
    : stream_(stream),
      on_gpu_{give_gpu_memory, take_gpu_memory, &stream_},
      on_host_{give_pinned_memory, take_pinned_memory, nullptr} {}

}  // namespace adaact
