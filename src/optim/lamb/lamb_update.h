#pragma once

#include <torch/types.h>

namespace adaact {

/// The numbers of one step of one parameter.
struct LambScalars {
  double lr = 0.0;                              // η
  double beta1 = 0.0, beta2 = 0.0;              // β₁, β₂
  double eps = 0.0;                             // ε
  double weight_decay = 0.0;                    // λ
  bool adapts = true;                           // r is used at all
  bool trust_clip = false;                      // r ≤ 1
  double gradient_scale = 1.0;                  // of the global clip
  double correction1 = 1.0, correction2 = 1.0;  // 1 − βᵢᵗ
};

/// θ, g and the state of one parameter, all of the same shape; updated in place. θ and g may be
/// narrower than the state, which is float32 or float64.
struct LambTensors {
  torch::Tensor theta;
  torch::Tensor g;
  torch::Tensor m;
  torch::Tensor v;
};

/// Plain tensor operations: any device, any strides; the oracle.
void lamb_update_reference(const LambTensors& tensors, const LambScalars& step);

/// The same with the averages and u in one pass over contiguous CPU tensors.
void lamb_update_cpu(const LambTensors& tensors, const LambScalars& step);

}  // namespace adaact
