#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <torch/optim/optimizer.h>

#include "optim/device/device_step.h"

namespace adaact {

/// How an error about a rejected step ends.
inline constexpr char kNothingChanged[] = "and nothing has changed";
inline constexpr char kLaterStepsTaken[] =
    "and changed nothing, but those enqueued after it were taken";

/// Steps of one optimizer on a GPU that the host does not look at one by one. Only in builds with CUDA.
class DeviceSession {
 public:
  /// What has happened since it was last asked.
  struct News {
    std::int64_t accepted = 0;
    std::int64_t rejected = 0;
    std::string complaint;  // about the first rejected step of the session
  };

  explicit DeviceSession(const torch::optim::Optimizer& optimizer);

  /// Where they differ from those it has.
  void send_learning_rates(const torch::optim::Optimizer& optimizer);

  /// Begins a step, which takes place only if these are finite; each with what to say otherwise. They
  /// must be the same in every step, for there is one count for all.
  void begin(const std::vector<std::pair<torch::Tensor, std::string>>& checked);
  void end();

  const DeviceStep& step() const { return step_; }
  /// The accepted steps that were in the news already.
  std::int64_t counted() const { return accepted_; }

  /// Waits for the device.
  News read();

 private:
  DeviceStep step_;
  std::vector<double> sent_rates_;
  std::int64_t accepted_ = 0;
  std::int64_t rejected_ = 0;
  std::vector<std::string> complaints_;  // by the number under which a culprit is known
};

}  // namespace adaact
