#include "kernels/gpu.h"
#include "kernels/without_cuda.h"

namespace adaact {

std::vector<Gpu> gpus() { return {}; }
std::string cuda_version() { return {}; }

double milliseconds_on_gpu(const std::function<void()>& /*work*/) {
  throw_without_cuda("time on a GPU");
}
GpuMemory gpu_memory(torch::Device /*device*/) { throw_without_cuda("memory of a GPU"); }
void restart_gpu_peak(torch::Device /*device*/) { throw_without_cuda("memory of a GPU"); }
void give_back_unused_gpu_memory() { throw_without_cuda("memory of a GPU"); }

}  // namespace adaact
