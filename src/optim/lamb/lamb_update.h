#pragma once

#include <cstdint>
#include <limits>

#include <torch/types.h>

namespace adaact {

/// What the options say of a parameter, and how often it was updated.
struct LambNumbers {
  double lr = 0.0;                  // η
  double beta1 = 0.0, beta2 = 0.0;  // β₁, β₂
  double eps = 0.0;                 // ε
  double weight_decay = 0.0;        // λ
  double max_grad_norm = std::numeric_limits<double>::infinity();
  bool adapts = true;        // r is used at all
  bool trust_clip = false;   // r ≤ 1
  std::int32_t group = 0;    // where a DeviceStep has η
  std::int64_t updates = 0;  // t − 1; with a DeviceStep, before its `accepted` began to count
};

/// The numbers of one step of one parameter.
struct LambScalars : LambNumbers {
  double gradient_scale = 1.0;                  // of the global clip
  double correction1 = 1.0, correction2 = 1.0;  // 1 − βᵢᵗ
};

/// LambScalars, rounded once, for the loops over elements on the CPU and on a GPU. 1 − β is not taken of the rounded
/// β: for β = 0.999 in float32 that is off by 1.3e-5 of itself.
template <typename State>
struct LambElementScalars {
  State beta1, beta2, one_minus_beta1, one_minus_beta2;
  State eps, weight_decay, gradient_scale;
  State m_scale, v_scale;  // 1/bc₁, 1/bc₂

  static constexpr LambElementScalars of(const LambScalars& step) {
    return {static_cast<State>(step.beta1),
            static_cast<State>(step.beta2),
            static_cast<State>(1.0 - step.beta1),
            static_cast<State>(1.0 - step.beta2),
            static_cast<State>(step.eps),
            static_cast<State>(step.weight_decay),
            static_cast<State>(step.gradient_scale),
            static_cast<State>(1.0 / step.correction1),
            static_cast<State>(1.0 / step.correction2)};
  }
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

/// lamb_update_reference() with the averages and u in one pass over contiguous CPU tensors.
void lamb_update_cpu(const LambTensors& tensors, const LambScalars& step);

}  // namespace adaact
