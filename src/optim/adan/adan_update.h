#pragma once

#include <cstdint>
#include <limits>

#include <torch/types.h>

namespace adaact {

/// What the options say of a parameter, and how often it was updated.
struct AdanNumbers {
  double lr = 0.0;                               // η
  double beta1 = 0.0, beta2 = 0.0, beta3 = 0.0;  // β₁, β₂, β₃
  double eps = 0.0;                              // ε
  double weight_decay = 0.0;                     // λ
  double max_grad_norm = std::numeric_limits<double>::infinity();
  bool proximal = true;
  std::int32_t group = 0;    // where a DeviceStep has η
  std::int64_t updates = 0;  // t − 1; with a DeviceStep, before its `accepted` began to count
};

/// The numbers of one step of one parameter.
struct AdanScalars : AdanNumbers {
  double gradient_scale = 1.0;                                     // of the global clip
  double correction1 = 1.0, correction2 = 1.0, correction3 = 1.0;  // 1 − βᵢᵗ
};

/// AdanScalars, rounded once, for the loops over elements on the CPU and on a GPU. 1 − β is not taken of the rounded
/// β: for β = 0.999 in float32 that is off by 1.3e-5 of itself.
template <typename State>
struct AdanElementScalars {
  State beta1, beta2, beta3, one_minus_beta1, one_minus_beta2, one_minus_beta3;
  State eps, gradient_scale;
  State m_scale, v_scale, n_scale;  // 1/bc₁, β₂/bc₂, 1/bc₃
  State theta_scale, u_scale;       // θ ← theta_scale · θ − u_scale · u

  static constexpr AdanElementScalars of(const AdanScalars& step) {
    const auto decay = step.lr * step.weight_decay;
    return {static_cast<State>(step.beta1),
            static_cast<State>(step.beta2),
            static_cast<State>(step.beta3),
            static_cast<State>(1.0 - step.beta1),
            static_cast<State>(1.0 - step.beta2),
            static_cast<State>(1.0 - step.beta3),
            static_cast<State>(step.eps),
            static_cast<State>(step.gradient_scale),
            static_cast<State>(1.0 / step.correction1),
            static_cast<State>(step.beta2 / step.correction2),
            static_cast<State>(1.0 / step.correction3),
            static_cast<State>(step.proximal ? 1.0 / (1.0 + decay) : 1.0 - decay),
            static_cast<State>(step.proximal ? step.lr / (1.0 + decay) : step.lr)};
  }
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

/// adan_update_reference() in one pass over contiguous CPU tensors.
void adan_update_cpu(const AdanTensors& tensors, const AdanScalars& step);

}  // namespace adaact
