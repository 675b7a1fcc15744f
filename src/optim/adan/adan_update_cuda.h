#pragma once

#include <vector>

#include "optim/adan/adan_update.h"
#include "optim/device/device_step.h"

namespace adaact {

struct AdanParameter : AdanNumbers {
  AdanTensors tensors;  // all with θ's strides; `previous` is not read at t = 1
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
