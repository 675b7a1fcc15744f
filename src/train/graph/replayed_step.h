#pragma once

#include <functional>

#include <torch/optim/optimizer.h>

#include "optim/base/step_parts.h"
#include "train/graph/replayed_work.h"

namespace adaact {

/// A training step that is recorded and replayed: passes and update as one where the host need not look,
/// otherwise as two around what it decides.
class ReplayedStep {
 public:
  /// Without an optimizer a step is its passes.
  ReplayedStep(torch::optim::Optimizer* optimizer, const Recorder& record);

  /// `passes` leave gradients and observations, in the same way every time.
  void take(const std::function<void()>& passes);

 private:
  void take_unseen(const std::function<void()>& passes);
  void take_with_decision(const std::function<void()>& passes);

  torch::optim::Optimizer* const optimizer_;
  StepParts* const parts_;
  ReplayedWork passes_;  // and, where the host need not look, the update
  ReplayedWork apply_;
  StepParts::Measured measured_;
};

}  // namespace adaact
