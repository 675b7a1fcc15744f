// Measures this library's CUDA kernels against what no kernel could beat: the time that the bytes it
// has to move take at the speed of a plain copy, and the time of as many launches that do nothing.
//
// Calls are captured in a CUDA graph and timed by the GPU, so that the host does not count. They work
// on several sets of tensors in turn, which together are larger than the L2 cache: what a call needs
// comes from memory. Counters of every benchmark:
//
//   MB         that a call has to move; see gpu.md
//   us         of a call, the median
//   GB/s       MB / us
//   floor_us   MB at the fastest of floor/copy and floor/read
//   fraction   floor_us / us
//   launches   of a call
//   launch_us  as many launches of floor/launch
//   set_MB     of all tensors of a call: what is smaller than the L2 cache may stay there in training
//   sets       in turn

#include <cstdio>
#include <string>

#include <ATen/cuda/CUDAContext.h>
#include <benchmark/benchmark.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/torch.h>
#include <torch/version.h>

#include "gpu_kernels/work.h"

namespace adaact::bench {
namespace {

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (!torch::cuda::is_available()) {
    std::fprintf(stderr, "gpu_kernels: there is no CUDA device\n");
    return 1;
  }
  // Graphs cannot be captured on the default stream.
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
  torch::manual_seed(0);
  const auto* gpu = at::cuda::getCurrentDeviceProperties();
  benchmark::AddCustomContext("gpu", gpu->name);
  benchmark::AddCustomContext("l2_cache_bytes", std::to_string(gpu->l2CacheSize));
  benchmark::AddCustomContext("cuda", std::to_string(CUDART_VERSION));
  benchmark::AddCustomContext("libtorch", TORCH_VERSION);

  add_floor_benchmarks();
  add_second_moment_benchmarks();
  add_update_benchmarks();
  add_gradient_benchmarks();
  add_batch_benchmarks();
  add_layer_benchmarks();
  add_graph_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace adaact::bench

int main(int argc, char** argv) { return adaact::bench::run(argc, argv); }
