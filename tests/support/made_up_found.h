#pragma once

// What an experiment finds of its plan, without carrying it out.

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "experiments/shelf/experiment.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace adaact::testing {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A finished run with this test accuracy after each of its epochs.
inline RunHistory history_with(const std::vector<double>& top1_by_epoch) {
  RunHistory history;
  history.finished = true;
  for (const double top1 : top1_by_epoch) {
    EpochMetrics epoch;
    epoch.epoch = static_cast<std::int64_t>(history.epochs.size());
    epoch.train_loss = 1.0;
    epoch.train_top1 = top1 + 0.02;
    epoch.test.loss = 1.0;
    epoch.test.top1 = top1;
    history.epochs.push_back(std::move(epoch));
  }
  return history;
}

/// A run whose loss is not finite from an epoch on, counted from 1.
inline RunHistory diverged_in(std::size_t epoch, const std::vector<double>& top1_by_epoch) {
  auto history = history_with(top1_by_epoch);
  for (auto index = epoch - 1; index < history.epochs.size(); ++index) {
    history.epochs[index].train_loss = kNaN;
    history.epochs[index].test.loss = kNaN;
  }
  return history;
}

/// A run of 20 epochs on CIFAR-10 that a gradient ended in the epoch after these.
inline RunHistory ended_after(const std::vector<double>& top1_by_epoch) {
  auto history = history_with(top1_by_epoch);
  history.finished = false;
  history.config.dataset = "cifar10";
  history.config.epochs = 20;
  history.divergence = Divergence{};
  history.divergence->epoch = static_cast<std::int64_t>(top1_by_epoch.size());
  return history;
}

/// The plan of an experiment, of which nothing was carried out yet.
inline Found nothing_found(const Experiment& experiment, const ExperimentForm& form = {}) {
  Found found;
  for (const auto& run : experiment.plan(form).runs) found.runs.push_back({run, std::nullopt});
  return found;
}

/// What a planned run came to, with its seed.
inline void set_history(Found::Run& run, RunHistory history) {
  history.config.seed = run.planned.config.seed;
  run.history = std::move(history);
}

/// The first run of the series that was not carried out yet is now this one.
inline void add_run(Found& found, const std::string& series, RunHistory history) {
  for (auto& run : found.runs) {
    if (run.planned.series != series || run.history) continue;
    set_history(run, std::move(history));
    return;
  }
  throw std::runtime_error("no run of " + series + " is missing");
}

/// The page that an experiment draws.
inline std::string drawn(const Experiment& experiment, const Found& found) {
  const TemporaryFolder folder;
  Page page(folder.path() / "page.html", experiment.title());
  experiment.draw(found, page);
  page.write();
  return bytes_of(folder.path() / "page.html");
}

}  // namespace adaact::testing
