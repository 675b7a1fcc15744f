#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <adaact/train/trainer.h>

#include "experiments/shelf/experiment.h"
#include "experiments/shelf/run_shelf.h"

namespace adaact {

struct CarryOutOptions {
  Machine machine;
  std::filesystem::path folder;  // of runs/ and measurements/
  std::function<std::unique_ptr<TrainingCallback>()> make_callback = [] {
    return std::make_unique<TrainingCallback>();
  };
  /// Takes a line before each piece of work, and what measurements tell.
  std::function<void(const std::string&)> on_progress = [](const std::string&) {};
  /// Takes a line that a user should know.
  std::function<void(const std::string&)> on_message = [](const std::string&) {};
};

struct CarryOutResult {
  std::vector<std::string> failures;  // a line for each run or measurement that failed
  int signal = 0;                     // that interrupted it, or 0
};

/// Trains and measures what of a plan is not on the shelf, one after the other: times are those of a run
/// alone. A run that was killed goes on; one that fails does not end the others, and one that diverges
/// is a result. SIGINT and SIGTERM end it, and what is finished stays. Data that are not there are found
/// before any work is done.
CarryOutResult carry_out(const ExperimentPlan& plan, RunShelf& shelf,
                         const CarryOutOptions& options);

}  // namespace adaact
