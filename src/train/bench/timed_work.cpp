#include "train/bench/timed_work.h"

#include <algorithm>
#include <chrono>

#include <c10/util/Exception.h>

#include "kernels/gpu.h"

namespace adaact {

double milliseconds_of(torch::Device device, const std::function<void()>& work) {
  if (device.is_cuda()) return milliseconds_on_gpu(work);
  TORCH_CHECK(device.is_cpu(), "time is to be measured on ", device, ", expected cpu or a GPU");
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  return taken.count();
}

double median(std::vector<double> values) {
  TORCH_CHECK(!values.empty(), "there are 0 values to take the median of, expected at least 1");
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace adaact
