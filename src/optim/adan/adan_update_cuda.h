#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "optim/adan/adan_update.h"
#include "optim/device/device_step.h"

namespace adaact {

/// One parameter and its numbers. The count is that before this step, and, with a DeviceStep, before
/// its `accepted` began to count.
struct AdanParameter {
  AdanTensors tensors;     // all with θ's strides; `previous` is not read at t = 1
  double lr = 0.0;         // η of an eager step
  std::int64_t group = 0;  // where a DeviceStep has η
  double beta1 = 0.0, beta2 = 0.0, beta3 = 0.0;  // β₁, β₂, β₃
  double eps = 0.0;                              // ε
  double weight_decay = 0.0;                     // λ
  bool proximal = true;
  double max_grad_norm = std::numeric_limits<double>::infinity();
  std::int64_t updates = 0;  // t − 1
};

/// False for what the kernel does not know: other dtypes, tensors of one parameter that lie
/// differently in memory.
bool can_update_cuda(const AdanParameter& parameter);

/// adan_update_reference for all parameters of a model: one launch for each dtype and device, and for
/// what one launch can hold. The norm of all gradients, as global_norm_cuda gives it, is not needed
/// where no parameter has a max_grad_norm.
void adan_update_cuda(const std::vector<AdanParameter>& parameters,
                      const torch::Tensor& gradient_norm = {}, const DeviceStep* step = nullptr);

}  // namespace adaact
