// What this folder's kernels are in a build without CUDA.

#include "kernels/without_cuda.h"
#include "optim/device/device_step.h"

namespace adaact {

DeviceStep make_device_step(std::int64_t /*groups*/, torch::Device /*device*/) {
  throw_without_cuda("a step on a device");
}
StepCounts read_counts(const DeviceStep& /*step*/) { throw_without_cuda("a step on a device"); }
void begin_step_cuda(const DeviceStep& /*step*/) { throw_without_cuda("a step on a device"); }
void check_finite_cuda(const std::vector<torch::Tensor>& /*tensors*/, std::int64_t /*first_index*/,
                       const DeviceStep& /*step*/) {
  throw_without_cuda("a step on a device");
}
void end_step_cuda(const DeviceStep& /*step*/) { throw_without_cuda("a step on a device"); }

}  // namespace adaact
