#include <memory>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include "train/graph/replayed_work.h"

namespace adaact {

Recorder cuda_graph_recorder() {
  return [pool = at::cuda::graph_pool_handle()](
             const std::function<void()>& work) -> std::function<void()> {
    // What the work took when it ran is in the allocator's cache, of which a capture can have nothing.
    c10::cuda::getCurrentCUDAStream().synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    const auto graph = std::make_shared<at::cuda::CUDAGraph>();
    // Only this thread's stream: others may be training, too.
    graph->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      try {
        graph->capture_end();
      } catch (...) {  // the first error says more
      }
      throw;
    }
    graph->capture_end();
    return [graph] { graph->replay(); };
  };
}

}  // namespace adaact
