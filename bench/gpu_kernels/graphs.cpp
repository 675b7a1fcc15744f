// What the CUDA graphs of training have beside the step itself: the row about each step, and kernels in the place of nodes
// that fill memory.

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <torch/torch.h>

#include "gpu_kernels/work.h"
#include "train/graph/record_reading_cuda.h"

namespace adaact::bench {
namespace {

torch::Tensor zeros(at::IntArrayRef shape, torch::ScalarType dtype) {
  return torch::zeros(shape, torch::dtype(dtype).device(torch::kCUDA));
}

Work reading_work() {
  const auto loss = zeros({}, torch::kFloat32);
  const auto correct = zeros({}, torch::kLong);
  const auto gradient_norm = zeros({}, torch::kFloat64);
  const auto readings = zeros({static_cast<std::int64_t>(kMostCalls), 3}, torch::kFloat64);
  const auto next = zeros({1}, torch::kLong);
  Work work;
  for (const auto& read : {loss, correct, gradient_norm, readings[0]}) work.traffic.add(read, 1);
  work.traffic.add(next, 2);
  work.call = [=](std::size_t /*set*/) {
    record_reading_cuda(loss, correct, gradient_norm, readings, next);
  };
  work.prepare = [next] { next.zero_(); };  // beyond the last row nothing would be written
  return work;
}

/// A node that fills memory when it is captured; the recorder puts the kernel in its place.
Work fill_work(std::int64_t bytes) {
  const auto sets =
      rotating_sets([=] { return zeros({bytes}, torch::kUInt8); },
                    [](const torch::Tensor& set) { return static_cast<double>(set.nbytes()); });
  Work work;
  work.sets = sets->size();
  work.traffic.add(sets->front(), 1);
  work.call = [sets](std::size_t set) {
    const auto& memory = (*sets)[set];
    C10_CUDA_CHECK(
        cudaMemsetAsync(memory.data_ptr(), 0, memory.nbytes(), c10::cuda::getCurrentCUDAStream()));
  };
  return work;
}

}  // namespace

void add_graph_benchmarks() {
  add_benchmark("write_reading", reading_work);
  for (const std::int64_t kilobytes : {64, 16384}) {
    add_benchmark("fill_bytes/" + std::to_string(kilobytes) + "kB",
                  [=] { return fill_work(1024 * kilobytes); });
  }
}

}  // namespace adaact::bench
