#pragma once

#include <cstddef>

#include <c10/cuda/CUDAStream.h>
#include <nvjpeg.h>

namespace adaact {

/// Memory for nvJPEG. On the GPU it is LibTorch's, which keeps what is free for its own tensors and would leave nothing
/// to another allocator. Must outlive all that it is for.
class NvjpegMemory {
 public:
  /// All work that uses the memory is on this stream, so that memory which is given back may be used at once by what
  /// comes after on it.
  explicit NvjpegMemory(c10::cuda::CUDAStream stream);
  NvjpegMemory(const NvjpegMemory&) = delete;
  NvjpegMemory& operator=(const NvjpegMemory&) = delete;

  nvjpegDevAllocatorV2_t* on_gpu() { return &on_gpu_; }
  nvjpegPinnedAllocatorV2_t* on_host() { return &on_host_; }

 private:
  c10::cuda::CUDAStream stream_;
  nvjpegDevAllocatorV2_t on_gpu_;
  nvjpegPinnedAllocatorV2_t on_host_;
};

}  // namespace adaact
