#pragma once

#include <torch/types.h>

namespace adaact {

/// The numbers of one step of one parameter.
struct AdanScalars {
  double lr = 0.0;                               // η
  double beta1 = 0.0, beta2 = 0.0, beta3 = 0.0;  // β₁, β₂, β₃
  double eps = 0.0;                              // ε
  double weight_decay = 0.0;                     // λ
  bool proximal = true;
  double gradient_scale = 1.0;                                     // of the global clip
  double correction1 = 1.0, correction2 = 1.0, correction3 = 1.0;  // 1 − βᵢᵗ
};

/// θ, g and the state of one parameter, all of the same shape; updated in place. θ and g may be
/// narrower than the state, which is float32 or float64.
struct AdanTensors {
  torch::Tensor theta;
  torch::Tensor g;
  torch::Tensor m;
  torch::Tensor v;
  torch::Tensor n;
  torch::Tensor previous;  // the gradient before; at t = 1 this one, so that Δ = 0
};

/// Plain tensor operations: any device, any strides; the oracle.
void adan_update_reference(const AdanTensors& tensors, const AdanScalars& step);

/// The same in one pass over contiguous CPU tensors.
void adan_update_cpu(const AdanTensors& tensors, const AdanScalars& step);

}  // namespace adaact
