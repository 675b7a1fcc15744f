#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <torch/types.h>

namespace adaact {

/// Where a captured step finds what changes from replay to replay, and what it says about itself.
///
/// Updates that take part in such a step are given the counts that the host knew when `accepted`
/// was 0. They add `accepted`, and do nothing while `bad` is set.
struct DeviceStep {
  torch::Tensor lr;        // (groups) float64: η of each parameter group
  torch::Tensor bad;       // (1) int32: set as soon as something in this step is not finite
  torch::Tensor counts;    // (4) int64: the four that follow, which are views of it
  torch::Tensor accepted;  // (1) steps taken since the host's counts were read
  torch::Tensor rejected;  // (1) steps left out because something was not finite
  torch::Tensor culprit;   // (1) smallest index found in the first of these, or else in this step
  torch::Tensor
      outsized;  // (1) smallest index of a parameter that a step changed out of proportion
};

constexpr std::int64_t kNoCulprit = std::numeric_limits<std::int64_t>::max();

/// The counters of a DeviceStep, read back.
struct StepCounts {
  std::int64_t accepted = 0;
  std::int64_t rejected = 0;
  std::int64_t culprit = kNoCulprit;
  std::int64_t outsized = kNoCulprit;
};

DeviceStep make_device_step(std::int64_t groups, torch::Device device);

/// Waits for the device. The counters stay as they are: a captured update goes on adding `accepted`
/// to the counts that it was given. A new capture with newer counts wants a new DeviceStep.
StepCounts read_counts(const DeviceStep& step);

/// From here on the step counts as finite.
void begin_step_cuda(const DeviceStep& step);

/// Sets `bad` if an element of a tensor is infinite or not a number. Tensor i is known to the culprit
/// as first_index + i. All dtypes in one launch.
void check_finite_cuda(const std::vector<torch::Tensor>& tensors, std::int64_t first_index,
                       const DeviceStep& step);

/// Counts the step.
void end_step_cuda(const DeviceStep& step);

}  // namespace adaact
