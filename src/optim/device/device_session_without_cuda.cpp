// What a step on a GPU is in a build without CUDA: nothing there can be checked, so none is begun.

#include "kernels/without_cuda.h"
#include "optim/device/device_session.h"

namespace adaact {

bool DeviceSession::can_check(const std::vector<torch::Tensor>& /*tensors*/) { return false; }
DeviceSession::DeviceSession(std::int64_t /*groups*/, torch::Device /*device*/) {
  throw_without_cuda("a step on a device");
}
bool DeviceSession::is_for(std::int64_t /*groups*/, torch::Device /*device*/) const {
  throw_without_cuda("a step on a device");
}
void DeviceSession::send_learning_rates(const std::vector<double>& /*rates*/) {
  throw_without_cuda("a step on a device");
}
void DeviceSession::begin(const std::vector<torch::Tensor>& /*checked*/) {
  throw_without_cuda("a step on a device");
}
std::optional<std::size_t> DeviceSession::culprit() { throw_without_cuda("a step on a device"); }
void DeviceSession::end() { throw_without_cuda("a step on a device"); }
DeviceSession::News DeviceSession::read() { throw_without_cuda("a step on a device"); }

}  // namespace adaact
