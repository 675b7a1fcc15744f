#pragma once

// What GPUs there are, and time and memory as they tell them.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <torch/types.h>

namespace adaact {

struct Gpu {
  std::string name;
  std::int64_t memory_bytes = 0;
};

/// The GPUs that this process can use, by index; none in a build without CUDA.
std::vector<Gpu> gpus();

/// The CUDA that this was built with, such as 13.0; empty in a build without it.
std::string cuda_version();

// A build without CUDA throws where it is asked for what follows.

/// The time from the beginning of the work to its end, by events on the current stream.
double milliseconds_on_gpu(const std::function<void()>& work);

/// What LibTorch's allocator has handed out, in bytes.
struct GpuMemory {
  std::int64_t in_use = 0;
  std::int64_t peak = 0;
};
GpuMemory gpu_memory(torch::Device device);
/// The peak of the moments before this one is forgotten.
void restart_gpu_peak(torch::Device device);
/// Blocks that the allocator keeps for later go back to the GPU.
void give_back_unused_gpu_memory();

}  // namespace adaact
