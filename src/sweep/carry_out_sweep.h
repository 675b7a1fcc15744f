#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <adaact/train/training_run.h>

#include "sweep/sweep_plan.h"
#include "sweep/trial_result.h"

namespace adaact {

/// What is told of while a sweep is carried out.
struct SweepEvent {
  enum class Kind : std::uint8_t {
    IsThere,  // what became of it before
    Begins,   // or goes on, if it has epochs already
    Ends,     // for now: its state says how; an unfinished one may be told to go on later
    Stops,    // others were better
  };
  Kind kind = Kind::Begins;
  const TrialResult& result;
};

struct SweepSettings {
  std::int64_t jobs = 1;  // trials at once, each on a thread of its own
  bool halving = true;    // false: every trial is trained to its end
  RunSettings run;        // of every trial; resume and stop_after_epoch are not used
  /// Both may be called on several threads, on_event never at once.
  std::function<std::unique_ptr<TrainingCallback>(const Trial& trial)> make_callback =
      [](const Trial&) { return std::make_unique<TrainingCallback>(); };
  std::function<void(const SweepEvent&)> on_event = [](const SweepEvent&) {};
};

struct SweepResult {
  std::vector<TrialResult> trials;  // in the order of the plan
  int signal = 0;                   // that interrupted it, or 0
};

/// Why the trials of a plan cannot train at once; empty where they can.
std::string obstacle_to_jobs(const RunConfig& base);

/// How many trials train at once, and with how many threads each where `config.threads` is 0. Several with
/// one thread take less time than one after the other with all cores.
struct SharedCores {
  std::int64_t jobs = 1;
  std::int64_t threads = 1;
};
/// `jobs` is what was asked for; 0: nothing.
SharedCores share_cores(const RunConfig& config, std::size_t trials, std::int64_t jobs,
                        std::int64_t cores);

/// The plan that a folder holds; an error where it holds none.
SweepPlan read_sweep(const std::filesystem::path& folder);
bool holds_sweep(const std::filesystem::path& folder);

/// Trains the trials of a plan, each in a folder below `folder`, whose sweep.json holds the plan. What is
/// finished or has diverged is not trained again; what was interrupted or killed goes on. A trial that fails
/// does not end the others. SIGINT and SIGTERM end all, with everything saved. Halving is within each
/// optimizer, and each trial computes what TrainingRun would compute alone. A plan that does not have all
/// that is there is an error, as is a folder with something else in it.
SweepResult carry_out_sweep(const SweepPlan& plan, const std::filesystem::path& folder,
                            const SweepSettings& settings);

}  // namespace adaact
