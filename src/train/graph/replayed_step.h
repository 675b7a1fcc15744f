#pragma once

#include <cstdint>
#include <functional>

#include <torch/optim/optimizer.h>

#include "optim/base/step_parts.h"

namespace adaact {

/// Records what work would do on a device, without doing it; what is returned does it.
using Recorder = std::function<std::function<void()>(const std::function<void()>& work)>;

/// Records CUDA graphs on the current stream, which must not be the default one. They share a pool of
/// memory, so they must be replayed one after the other. `wait_for_stream` is called before the host waits for what is
/// enqueued there: other ranks may keep it waiting.
Recorder cuda_graph_recorder(const std::function<void()>& wait_for_stream = [] {});

/// Work that is done again and again: the first time as it stands, because a recording must not make
/// anything for the first time, then by replays of a recording of it.
class ReplayedWork {
 public:
  /// The generation of work that has yet to make what it works with.
  static constexpr std::int64_t kNotReady = 0;

  explicit ReplayedWork(Recorder record);
  ~ReplayedWork();
  ReplayedWork(const ReplayedWork&) = delete;
  ReplayedWork& operator=(const ReplayedWork&) = delete;

  /// Does the work. A recording holds for the generation that it was made in: in another one everything
  /// begins anew. Where the work is done as it stands, or recorded, set_up_mutex() is held.
  void run(const std::function<void()>& work, std::int64_t generation = 1);

 private:
  const Recorder record_;
  std::function<void()> replay_;         // empty where there is no recording
  std::int64_t generation_ = kNotReady;  // that the work has been done in
};

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
