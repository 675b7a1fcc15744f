#include "train/graph/replayed_step.h"

#include <mutex>
#include <utility>

#include "train/graph/set_up_mutex.h"

namespace adaact {

ReplayedWork::ReplayedWork(Recorder record) : record_(std::move(record)) {}

ReplayedWork::~ReplayedWork() {
  if (!replay_) return;
  // A graph takes leave of LibTorch's generator, which those of other threads know, too.
  const std::lock_guard<std::mutex> lock(set_up_mutex());
  replay_ = nullptr;
}

void ReplayedWork::run(const std::function<void()>& work, std::int64_t generation) {
  if (generation == kNotReady || generation != generation_) {
    const std::lock_guard<std::mutex> lock(set_up_mutex());
    replay_ = nullptr;
    generation_ = kNotReady;  // should the work throw
    work();
    generation_ = generation;
    return;
  }
  if (!replay_) {
    const std::lock_guard<std::mutex> lock(set_up_mutex());
    replay_ = record_(work);
  }
  replay_();
}

ReplayedStep::ReplayedStep(torch::optim::Optimizer* optimizer, const Recorder& record)
    : optimizer_(optimizer),
      parts_(optimizer == nullptr ? nullptr : StepParts::of(*optimizer)),
      passes_(record),
      apply_(record) {}

void ReplayedStep::take(const std::function<void()>& passes) {
  if (parts_ == nullptr) {
    passes_.run(passes);
  } else if (parts_->host_work() == HostWork::Nothing) {
    take_unseen(passes);
  } else {
    take_with_decision(passes);
  }
}

void ReplayedStep::take_unseen(const std::function<void()>& passes) {
  const bool has_state = parts_->generation() != ReplayedWork::kNotReady;
  if (has_state) parts_->send_learning_rates();
  const auto step = [&] {
    passes();
    if (has_state) {
      parts_->measure(Verdict::Device);
      parts_->apply();
    } else {
      optimizer_->step();  // makes the state
    }
  };
  passes_.run(step, parts_->generation());
}

void ReplayedStep::take_with_decision(const std::function<void()>& passes) {
  const auto measured_passes = [&] {
    passes();
    parts_->measure(Verdict::Host);
    measured_ = parts_->measured();
  };
  passes_.run(measured_passes, parts_->generation_of_verdict());
  parts_->resume(measured_);
  parts_->decide();
  if (parts_->accepted()) apply_.run([&] { parts_->apply(); }, parts_->generation());
  parts_->settle();
}

}  // namespace adaact
