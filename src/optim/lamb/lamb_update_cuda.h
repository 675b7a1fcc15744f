#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "optim/device/device_step.h"
#include "optim/lamb/lamb_update.h"

namespace adaact {

/// One parameter and its numbers. The count is that before this step, and, with a DeviceStep, before
/// its `accepted` began to count.
struct LambParameter {
  LambTensors tensors;              // all with θ's strides
  double lr = 0.0;                  // η of an eager step
  std::int64_t group = 0;           // where a DeviceStep has η
  double beta1 = 0.0, beta2 = 0.0;  // β₁, β₂
  double eps = 0.0;                 // ε
  double weight_decay = 0.0;        // λ
  bool adapts = true;               // r is used at all
  bool trust_clip = false;          // r ≤ 1
  double max_grad_norm = std::numeric_limits<double>::infinity();
  std::int64_t updates = 0;  // t − 1
};

/// False for what the kernels do not know: other dtypes, tensors of one parameter that lie
/// differently in memory.
bool can_update_cuda(const LambParameter& parameter);

/// lamb_update_reference for all parameters of a model: three launches for each dtype and device, and
/// for what one launch can hold. The norm of all gradients, as global_norm_cuda gives it, is not needed
/// where no parameter has a max_grad_norm.
void lamb_update_cuda(const std::vector<LambParameter>& parameters,
                      const torch::Tensor& gradient_norm = {}, const DeviceStep* step = nullptr);

}  // namespace adaact
