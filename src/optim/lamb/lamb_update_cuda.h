#pragma once

#include <vector>

#include "optim/device/device_step.h"
#include "optim/lamb/lamb_update.h"

namespace adaact {

struct LambParameter : LambNumbers {
  LambTensors tensors;  // all with θ's strides
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
