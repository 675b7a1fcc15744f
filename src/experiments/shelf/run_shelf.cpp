#include "experiments/shelf/run_shelf.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <c10/util/Exception.h>

#include "experiments/shelf/measurement_files.h"
#include "experiments/shelf/run_key.h"
#include "experiments/shelf/same_sample.h"
#include "io/error_text.h"
#include "train/run/run_file_names.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

/// Whether every epoch of a run has them.
bool has_activation_variances(const RunHistory& run) {
  return std::none_of(run.epochs.begin(), run.epochs.end(),
                      [](const EpochMetrics& epoch) { return epoch.activation_variances.empty(); });
}

bool is_whole(const RunHistory& run) {
  return run.finished && static_cast<std::int64_t>(run.epochs.size()) == run.config.epochs;
}

bool will_do(const RunHistory& run, const PlannedRun& planned) {
  return (is_whole(run) || run.divergence) &&
         (!planned.activation_variances || has_activation_variances(run));
}

/// Links are not followed: they may lead in a circle.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && !entry.is_symlink()) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace

RunShelf::RunShelf(const std::vector<fs::path>& folders) {
  for (const auto& folder : folders) {
    TORCH_CHECK(fs::is_directory(folder), "adaact: there is no folder ", folder.string());
    look_into(folder);
  }
}

void RunShelf::look_into(const fs::path& folder) {
  try {
    if (fs::exists(folder / kConfigFile) || holds_measurement(folder)) {
      add(folder);
      return;
    }
  } catch (const std::exception& error) {
    leave_out(folder, error);  // somebody else's; runs may still lie below
  }
  try {
    for (const auto& each : folders_in(folder)) look_into(each);
  } catch (const fs::filesystem_error& error) {
    leave_out(folder, error);
  }
}

void RunShelf::add(const fs::path& folder) {
  if (holds_measurement(folder)) {
    measurements_[key_of_measurement(folder)].push_back(folder);
  } else {
    const auto config = RunConfig::read(folder / kConfigFile);
    runs_[key_of(config)].push_back(folder);
    seeds_[key_of_any_seed(config)].insert(config.seed);
  }
}

void RunShelf::leave_out(const fs::path& folder, const std::exception& error) {
  messages_.push_back(folder.string() + " is left out: " + error_text_within_line(error));
}

std::vector<RunHistory> RunShelf::find(const PlannedRun& planned) {
  auto& folders = runs_[key_of(planned.config)];
  std::vector<RunHistory> runs;
  for (auto folder = folders.begin(); folder != folders.end();) {
    try {
      // Kept results have no steps: an experiment must do without.
      auto history = RunHistory::read(*folder, RunHistory::Detail::WithoutSteps);
      const bool is_known = std::any_of(runs.begin(), runs.end(), [&](const RunHistory& run) {
        return are_same_sample(run, history);
      });
      if (!is_known && will_do(history, planned)) runs.push_back(std::move(history));
      ++folder;
    } catch (const std::exception& error) {
      leave_out(*folder, error);
      folder = folders.erase(folder);  // told once
    }
  }
  if (std::any_of(runs.begin(), runs.end(), is_whole)) {
    runs.erase(std::remove_if(runs.begin(), runs.end(), std::not_fn(is_whole)), runs.end());
  }
  return runs;
}

std::optional<Measured> RunShelf::find(const PlannedMeasurement& planned) {
  auto& folders = measurements_[key_of(planned)];
  while (!folders.empty()) {
    try {
      auto measured = read_measurement(folders.front());
      const auto problem = problem_with(measured, planned);
      TORCH_CHECK(problem.empty(), problem);
      return measured;
    } catch (const std::exception& error) {
      leave_out(folders.front(), error);
      folders.erase(folders.begin());
    }
  }
  return std::nullopt;
}

fs::path RunShelf::find_model(const PlannedRun& planned) const {
  const auto found = runs_.find(key_of(planned.config));
  if (found == runs_.end()) return {};
  for (const auto& folder : found->second) {
    if (fs::exists(folder / kModelFile)) return folder / kModelFile;
  }
  return {};
}

Found RunShelf::find_all(const ExperimentPlan& plan, SeedsThatCount seeds) {
  Found found;
  std::set<std::pair<std::string, std::string>> series;  // and key
  for (const auto& planned : plan.runs) {
    auto runs = find(planned);
    if (runs.empty()) found.runs.push_back({planned, std::nullopt});
    for (auto& run : runs) found.runs.push_back({planned, std::move(run)});
    series.emplace(planned.series, key_of(planned.config));
  }
  if (seeds == SeedsThatCount::All) {
    for (auto planned : plan.runs) {
      for (const auto seed : seeds_[key_of_any_seed(planned.config)]) {
        planned.config.seed = seed;
        if (!series.emplace(planned.series, key_of(planned.config)).second) continue;
        for (auto& run : find(planned)) found.runs.push_back({planned, std::move(run)});
      }
    }
  }
  for (const auto& measurement : plan.measurements) {
    found.measurements.push_back({measurement, find(measurement)});
  }
  return found;
}

}  // namespace adaact
