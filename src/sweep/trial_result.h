#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sweep/halving.h"
#include "sweep/sweep_plan.h"

namespace adaact {

enum class TrialState : std::uint8_t {
  NotBegun,
  Unfinished,    // interrupted, or it waits for others
  StoppedEarly,  // others were better
  Finished,
  Diverged,
  Failed,  // an error that is not the run's: the next time it is tried again
};

/// "not begun", "stopped early" and so on, for tables and for JSON.
const char* to_string(TrialState state);

/// What became of a trial so far.
struct TrialResult {
  Trial trial;
  std::filesystem::path folder;
  TrialState state = TrialState::NotBegun;
  std::vector<double> accuracies;      // test top-1 after each epoch
  double train_loss = 0.0;             // of the last epoch
  double seconds = 0.0;                // of training
  std::int64_t diverged_in_epoch = 0;  // counted from 1; 0: it did not
  std::string error;

  /// After its last epoch so far; nothing before the first.
  std::optional<double> accuracy() const;
  bool is_lost() const { return state == TrialState::Diverged || state == TrialState::Failed; }
  Standing standing() const { return {accuracies, is_lost()}; }
};

/// What the folder of a trial tells. Whether it was stopped early is not for the folder to say.
TrialResult read_trial(const Trial& trial, const std::filesystem::path& folder);

/// Finished ones first and the best of them before all; then those that were stopped, by how far they came
/// and how good they were; then the lost.
std::vector<TrialResult> from_best_to_worst(std::vector<TrialResult> trials);

/// The best finished trial of an optimizer.
struct BestTrial {
  TrialResult result;
  bool is_least_rate = false;  // of those that were tried: a smaller one may be better
  bool is_greatest_rate = false;
};

/// Of each optimizer that has a finished trial, in the order of the trials.
std::vector<BestTrial> best_trials(const std::vector<TrialResult>& trials);

/// "the greatest rate tried: try greater ones"; empty where the best lies between others.
std::string remark_on(const BestTrial& best);

}  // namespace adaact
