#pragma once

#include <torch/types.h>

#ifdef ADAACT_WITH_CUDA
#include <optional>

#include <c10/cuda/CUDAGuard.h>
#endif

namespace adaact {

/// While this lives, this thread's work on a GPU goes to a stream of its own: graphs cannot be captured on
/// the default one, and all threads share it. Work from before is done when it begins, its own when it
/// ends. On other devices it does nothing.
class OwnStream {
 public:
#ifdef ADAACT_WITH_CUDA
  explicit OwnStream(torch::Device device) {
    if (!device.is_cuda()) return;
    c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
    guard_.emplace(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()));
  }
  ~OwnStream() {
    // An error of the device is the next caller's to see.
    if (guard_) static_cast<void>(cudaStreamSynchronize(guard_->current_stream()));
  }
#else
  explicit OwnStream(torch::Device /*device*/) {}
  ~OwnStream() = default;
#endif
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

 private:
#ifdef ADAACT_WITH_CUDA
  std::optional<c10::cuda::CUDAStreamGuard> guard_;
#endif
};

}  // namespace adaact
