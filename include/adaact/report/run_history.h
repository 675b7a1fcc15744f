#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include <adaact/train/metrics.h>
#include <adaact/train/run_config.h>

namespace adaact {

/// What a training run has left in its folder so far. It may still be going on: a record that is only
/// half written is left out, and there may be no epoch yet.
struct RunHistory {
  /// Whether the records of steps are read too: a long run has a thousand times as many steps as
  /// epochs.
  enum class Detail : std::uint8_t { Everything, WithoutSteps };

  std::filesystem::path folder;
  RunConfig config;
  std::vector<StepMetrics> steps;
  std::vector<EpochMetrics> epochs;        // numbers that were not finite are NaN
  bool finished = false;                   // it has its model, or all its epochs
  std::optional<Divergence> divergence;    // what ended it before its last epoch
  std::optional<std::int64_t> parameters;  // where its model is there

  /// A folder that holds no run is an error that names it, a damaged record one that names its line.
  static RunHistory read(const std::filesystem::path& folder, Detail detail = Detail::Everything);

  /// Seconds of training since the run began, waiting for data included; evaluation is not.
  double seconds() const;
  /// Steps of a whole epoch; nothing before the first one is finished.
  std::optional<double> steps_per_epoch() const;
  /// The epoch with the best test accuracy; null before the first one is finished.
  const EpochMetrics* best_epoch() const;
  /// The first epoch, counted from 1, whose loss is not finite or that a gradient ended that was not: from
  /// there on the run is lost.
  std::optional<std::int64_t> diverged_in_epoch() const;
};

}  // namespace adaact
