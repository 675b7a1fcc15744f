#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "optim/adaact/plan.h"
#include "optim/device/device_step.h"

namespace adaact {

/// Which of M and V a parameter has decides its rule:
///
///   M and V     an observed weight
///   M alone     as if its input were the constant 1: a bias, UnobservedRule::Momentum
///   neither     θ − η(g + λθ), UnobservedRule::PlainGradient
struct AdaActTensors {
  torch::Tensor theta;  // float32, bfloat16, float16 or float64; contiguous or channels last
  torch::Tensor g;      // of θ's dtype and, as M, with θ's strides
  torch::Tensor m;      // float32, or float64 for float64
  torch::Tensor v;      // (S, n) in M's dtype; θ's rows are split evenly among the S
  torch::Tensor sum;    // (S, n) of this step, in M's dtype; undefined: V stays as it is
};

/// One parameter and its numbers. Counts are those before this step, and, with a DeviceStep, before
/// its `accepted` began to count.
struct AdaActParameter {
  AdaActTensors tensors;
  double lr = 0.0;                                             // η of an eager step
  std::int64_t group = 0;                                      // where a DeviceStep has η
  double beta1 = 0.0;                                          // β₁
  double beta2 = 0.0;                                          // β₂
  double eps = 0.0;                                            // ε
  double weight_decay = 0.0;                                   // λ
  double power = 0.5;                                          // p
  double clip_low = 0.0;                                       // c_L
  double clip_high = std::numeric_limits<double>::infinity();  // c_U
  std::int64_t count = 0;                                      // of rows in `sum`
  std::int64_t updates = 0;                                    // of M
  std::int64_t observations = 0;                               // of V, the same for all of its rows
  std::int64_t index = 0;  // under which it is noted as outsized
};

/// False for what the kernels do not know: other dtypes and orders in memory, tensors of one parameter
/// that differ in theirs.
bool can_update_cuda(const AdaActParameter& parameter);

/// Lines 4 to 15 of Algorithm 1, in place, for all parameters of a model: one launch for the averages
/// V of all observed weights and one for all parameters; as many again for each further dtype and
/// device, and where one launch cannot hold them all.
///
/// `outsized` (1) int64 becomes the smallest index of those with an element that is_outsized(), where that is
/// smaller than what it was.
void adaact_update_cuda(const std::vector<AdaActParameter>& parameters,
                        const DeviceStep* step = nullptr, const torch::Tensor& outsized = {});

/// A plan but for the full covariance, as the kernels take it; nothing where they do not know all of it:
/// parameters elsewhere, layers used in part, layers that were observed and have no gradient. Counts of the
/// states hold `counted` of the steps that the device has accepted.
std::optional<std::vector<AdaActParameter>> describe_for_gpu(const std::vector<PlannedUpdate>& plan,
                                                             std::int64_t counted);

/// Carries it out in a few launches. Counts in the states are settle()'s business.
void apply_on_gpu(std::vector<PlannedUpdate>& plan, const std::vector<AdaActParameter>& updates,
                  const DeviceStep* step, const torch::Tensor& outsized);

}  // namespace adaact
