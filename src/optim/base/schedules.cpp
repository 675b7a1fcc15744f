#include <adaact/optim/schedules.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <c10/util/Exception.h>
#include <torch/optim/optimizer.h>

namespace adaact {
namespace {

constexpr double kPi = 3.14159265358979323846;

}  // namespace

Schedule constant_schedule() {
  return [](std::int64_t /*t*/) { return 1.0; };
}

Schedule step_schedule(std::int64_t period, double gamma) {
  TORCH_CHECK(period >= 1, "step_schedule: period is ", period, ", expected ≥ 1");
  return [period, gamma](std::int64_t t) {
    const auto whole_periods = t / period;
    return std::pow(gamma, static_cast<double>(whole_periods));
  };
}

Schedule multistep_schedule(std::vector<std::int64_t> milestones, double gamma) {
  TORCH_CHECK(std::is_sorted(milestones.begin(), milestones.end()),
              "multistep_schedule: milestones are ", at::IntArrayRef(milestones),
              ", expected ascending ones");
  return [milestones = std::move(milestones), gamma](std::int64_t t) {
    const auto passed = std::upper_bound(milestones.begin(), milestones.end(), t);
    return std::pow(gamma, static_cast<double>(passed - milestones.begin()));
  };
}

Schedule cosine_schedule(std::int64_t total, double final_factor) {
  TORCH_CHECK(total >= 1, "cosine_schedule: total is ", total, ", expected ≥ 1");
  return [total, final_factor](std::int64_t t) {
    if (t >= total) return final_factor;
    const auto progress = static_cast<double>(t) / static_cast<double>(total);
    return final_factor + 0.5 * (1.0 - final_factor) * (1.0 + std::cos(kPi * progress));
  };
}

Schedule per_epoch(Schedule in_epochs, std::int64_t steps_per_epoch) {
  TORCH_CHECK(in_epochs, "per_epoch: there is no schedule");
  TORCH_CHECK(steps_per_epoch >= 1, "per_epoch: steps_per_epoch is ", steps_per_epoch,
              ", expected ≥ 1");
  return [in_epochs = std::move(in_epochs), steps_per_epoch](std::int64_t t) {
    return in_epochs(t / steps_per_epoch);
  };
}

Schedule with_warmup(std::int64_t length, double start_factor, Schedule then) {
  TORCH_CHECK(then, "with_warmup: there is no schedule");
  TORCH_CHECK(length >= 0, "with_warmup: length is ", length, ", expected ≥ 0");
  return [length, start_factor, then = std::move(then)](std::int64_t t) {
    if (t >= length) return then(t - length);
    const auto progress = static_cast<double>(t) / static_cast<double>(length);
    return start_factor + (1.0 - start_factor) * progress;
  };
}

double scaled_learning_rate(double lr, std::int64_t batch_size, std::int64_t reference_batch_size) {
  TORCH_CHECK(batch_size >= 1 && reference_batch_size >= 1,
              "scaled_learning_rate: batch sizes are ", batch_size, " and ", reference_batch_size,
              ", expected ≥ 1");
  return lr * static_cast<double>(batch_size) / static_cast<double>(reference_batch_size);
}

ScheduledLR::ScheduledLR(torch::optim::Optimizer& optimizer, Schedule schedule)
    : LRScheduler(optimizer), optimizer_(optimizer), schedule_(std::move(schedule)) {
  TORCH_CHECK(schedule_, "ScheduledLR: there is no schedule");
  initial_lrs_ = get_current_lrs();
  set_time(0);
}

std::vector<double> ScheduledLR::lrs_at(std::int64_t time) const {
  auto lrs = initial_lrs_;
  for (auto& lr : lrs) lr *= schedule_(time);
  return lrs;
}

std::vector<double> ScheduledLR::get_lrs() { return lrs_at(++time_); }

void ScheduledLR::set_time(std::int64_t time) {
  TORCH_CHECK(time >= 0, "ScheduledLR: time is ", time, ", expected ≥ 0");
  time_ = time;
  const auto lrs = lrs_at(time);
  auto& groups = optimizer_.param_groups();
  TORCH_CHECK(groups.size() == lrs.size(), "ScheduledLR: the optimizer has ", groups.size(),
              " parameter groups, but had ", lrs.size(), " when the scheduler was made");
  for (std::size_t g = 0; g < lrs.size(); ++g) groups[g].options().set_lr(lrs[g]);
}

}  // namespace adaact
