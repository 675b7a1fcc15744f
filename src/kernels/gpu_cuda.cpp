#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <torch/cuda.h>

#include "kernels/gpu.h"

namespace adaact {
namespace {

c10::DeviceIndex index_of_gpu(torch::Device device) {
  return device.has_index() ? device.index() : c10::cuda::current_device();
}

}  // namespace

std::vector<Gpu> gpus() {
  std::vector<Gpu> all;
  for (int i = 0; i < static_cast<int>(torch::cuda::device_count()); ++i) {
    const auto* gpu = at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(i));
    all.push_back({gpu->name, static_cast<std::int64_t>(gpu->totalGlobalMem)});
  }
  return all;
}

std::string cuda_version() {
  return std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
}

double milliseconds_on_gpu(const std::function<void()>& work) {
  at::cuda::CUDAEvent begin(cudaEventDefault);  // unlike LibTorch's default, with the time
  at::cuda::CUDAEvent end(cudaEventDefault);
  begin.record();
  work();
  end.record();
  end.synchronize();
  return begin.elapsed_time(end);
}

GpuMemory gpu_memory(torch::Device device) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index_of_gpu(device));
  const auto& bytes = stats.allocated_bytes[0];  // large and small blocks together
  return {bytes.current, bytes.peak};
}

void restart_gpu_peak(torch::Device device) {
  c10::cuda::CUDACachingAllocator::resetPeakStats(index_of_gpu(device));
}

void give_back_unused_gpu_memory() { c10::cuda::CUDACachingAllocator::emptyCache(); }

}  // namespace adaact
