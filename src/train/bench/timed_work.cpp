#include "train/bench/timed_work.h"

#include <algorithm>
#include <chrono>

#include <c10/util/Exception.h>
#ifdef ADAACT_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <cuda_runtime_api.h>
#endif

namespace adaact {
namespace {

double milliseconds_by_clock(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  return taken.count();
}

#ifdef ADAACT_WITH_CUDA
double milliseconds_by_events(const std::function<void()>& work) {
  at::cuda::CUDAEvent begin(cudaEventDefault);  // unlike LibTorch's default, with the time
  at::cuda::CUDAEvent end(cudaEventDefault);
  begin.record();
  work();
  end.record();
  end.synchronize();
  return begin.elapsed_time(end);
}
#endif

}  // namespace

double milliseconds_of(torch::Device device, const std::function<void()>& work) {
#ifdef ADAACT_WITH_CUDA
  if (device.is_cuda()) return milliseconds_by_events(work);
#endif
  TORCH_CHECK(device.is_cpu(), "time is to be measured on ", device, ", expected cpu",
              " or, in a build with CUDA, a GPU");
  return milliseconds_by_clock(work);
}

double median(std::vector<double> values) {
  TORCH_CHECK(!values.empty(), "there are 0 values to take the median of, expected at least 1");
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace adaact
