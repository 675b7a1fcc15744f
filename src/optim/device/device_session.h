#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "optim/device/device_step.h"

namespace adaact {

/// Steps of one optimizer on a GPU.
class DeviceSession {
 public:
  /// What has happened since it was last asked.
  struct News {
    std::int64_t accepted = 0;
    std::int64_t rejected = 0;
    std::size_t culprit = 0;  // of the first rejected step, among what begin() was given
  };

  /// Whether there are tensors, and all are numbers on one GPU.
  static bool can_check(const std::vector<torch::Tensor>& tensors);

  DeviceSession(std::int64_t groups, torch::Device device);
  bool is_for(std::int64_t groups, torch::Device device) const;

  /// Sends the groups' learning rates where they differ from what the device has.
  void send_learning_rates(const std::vector<double>& rates);

  /// Begins a step, which counts as finite if `checked` is.
  void begin(const std::vector<torch::Tensor>& checked);
  /// Waits for the device. Tells which of the tensors that begin() was given is not finite.
  std::optional<std::size_t> culprit();
  /// Has the device count the step.
  void end();

  const DeviceStep& step() const noexcept { return step_; }
  /// The accepted steps that the host has counted already.
  std::int64_t counted() const noexcept { return accepted_; }
  /// The host knows of one more step that the device has accepted or is about to.
  void count_accepted() noexcept { ++accepted_; }

  /// Waits for the device and tells what has happened.
  News read();

  /// A parameter that a step changed out of proportion, as of the last time that the device was waited for.
  std::optional<std::size_t> take_outsized() noexcept { return std::exchange(outsized_, {}); }

 private:
  void note_outsized(const StepCounts& counts);

  DeviceStep step_;
  std::vector<double> sent_rates_;
  std::int64_t accepted_ = 0;
  std::optional<std::size_t> outsized_;
};

}  // namespace adaact
