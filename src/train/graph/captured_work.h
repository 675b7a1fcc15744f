#pragma once

#include <functional>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

namespace adaact {

/// Work on the current stream of a GPU that is recorded once and then replayed. Only in builds with CUDA.
class CapturedWork {
 public:
  /// Runs `work` without executing it. It must have run before, so that nothing is made for the first
  /// time. Work that is replayed in turn may share a pool of memory.
  CapturedWork(at::cuda::MempoolId_t pool, const std::function<void()>& work) {
    // What the work took when it ran is in the allocator's cache, of which a capture can have nothing.
    c10::cuda::getCurrentCUDAStream().synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    // Only this thread's stream: others may be training, too.
    graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      try {
        graph_.capture_end();
      } catch (...) {  // the first error says more
      }
      throw;
    }
    graph_.capture_end();
  }

  void replay() { graph_.replay(); }

 private:
  at::cuda::CUDAGraph graph_;
};

}  // namespace adaact
