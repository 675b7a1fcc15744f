#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <adaact/train/trainer.h>

#include "output.h"
#include "sweep/carry_out_sweep.h"

namespace adaact::app {

/// What a person sees of a sweep: a line for what happens to a trial, and on a terminal, below these, how
/// far those are that train.
class SweepProgress {
 public:
  SweepProgress(Verbosity verbosity, std::size_t trials);
  ~SweepProgress();
  SweepProgress(const SweepProgress&) = delete;
  SweepProgress& operator=(const SweepProgress&) = delete;

  void on_event(const SweepEvent& event);
  /// A notice for the user, which does not run into the line below.
  void on_message(const std::string& message);
  std::unique_ptr<TrainingCallback> callback_of(const Trial& trial);

 private:
  class OfTrial;
  void set_status(const std::string& trial, const std::string& status);
  void draw();

  const Verbosity verbosity_;
  const std::size_t trials_;
  const bool on_terminal_;
  std::mutex mutex_;  // of what follows, and of printing
  std::size_t done_ = 0;
  std::map<std::string, std::string> statuses_;  // of trials that train
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace adaact::app
