#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <torch/optim/schedulers/lr_scheduler.h>

namespace adaact {

/// What the initial learning rate is multiplied by at time t = 0, 1, 2, …, counted in steps or in
/// epochs: whoever asks decides. Pure: nothing is remembered between calls.
using Schedule = std::function<double(std::int64_t t)>;

/// 1
Schedule constant_schedule();
/// γ^⌊t/period⌋
Schedule step_schedule(std::int64_t period, double gamma = 0.1);
/// γ^(milestones ≤ t); milestones ascend.
Schedule multistep_schedule(std::vector<std::int64_t> milestones, double gamma = 0.1);
/// final + ½(1 − final)(1 + cos(πt/total)), and `final` from t = total on.
Schedule cosine_schedule(std::int64_t total, double final_factor = 0.0);

/// A schedule in epochs for use in steps: it changes with each epoch.
Schedule per_epoch(Schedule in_epochs, std::int64_t steps_per_epoch);
/// Rises linearly from start_factor at t = 0 to 1 at t = length, where `then` begins at its 0.
Schedule with_warmup(std::int64_t length, double start_factor, Schedule then);

/// The linear scaling rule (Goyal et al., 2017): lr · batch_size / reference_batch_size.
double scaled_learning_rate(double lr, std::int64_t batch_size,
                            std::int64_t reference_batch_size = 256);

/// Sets the learning rate of every group of an optimizer to its initial one times a schedule. The
/// factor at 0 holds from construction on, that at t after t calls of step().
///
///   adaact::ScheduledLR scheduler(optimizer, adaact::cosine_schedule(200));
///   for (…each epoch…) { …; scheduler.step(); }
///
/// To resume, make it before the optimizer's state is loaded, which restores the learning rate of
/// that moment, and then call set_time().
class ScheduledLR : public torch::optim::LRScheduler {
 public:
  ScheduledLR(torch::optim::Optimizer& optimizer, Schedule schedule);

  std::int64_t time() const noexcept { return time_; }
  /// Continues as after so many steps.
  void set_time(std::int64_t time);

 protected:
  std::vector<double> get_lrs() override;

 private:
  std::vector<double> lrs_at(std::int64_t time) const;

  torch::optim::Optimizer& optimizer_;
  Schedule schedule_;
  std::vector<double> initial_lrs_;
  std::int64_t time_ = 0;
};

}  // namespace adaact
