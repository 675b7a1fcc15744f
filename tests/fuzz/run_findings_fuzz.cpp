// What the paper's experiments find in the metrics of a run.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <adaact/report/run_history.h>

#include "experiments/paper/catalog.h"
#include "fuzz/fuzz_targets.h"
#include "fuzz/input_folder.h"
#include "support/made_up_found.h"
#include "support/made_up_variances.h"
#include "train/run/metrics_record.h"
#include "train/run/run_file_names.h"

namespace adaact::fuzz {
namespace {

/// The plan of every experiment that has runs, with one seed. Nothing was measured.
std::map<const Experiment*, Found>& planned_experiments() {
  static std::map<const Experiment*, Found> all = [] {
    std::map<const Experiment*, Found> found;
    for (const auto* experiment : experiments()) {
      ExperimentForm form;
      form.seeds = {1};
      auto nothing = testing::nothing_found(*experiment, form);
      if (nothing.runs.empty()) continue;
      for (const auto& measurement : experiment->plan(form).measurements) {
        nothing.measurements.push_back({measurement, std::nullopt});
      }
      found.emplace(experiment, std::move(nothing));
    }
    return found;
  }();
  return all;
}

/// As RunShelf finds them: of each run the epochs only, and with variances where they are needed.
bool is_usable(const RunHistory& history, const PlannedRun& planned) {
  if (history.epochs.empty() && !history.divergence) return false;
  if (!planned.activation_variances) return true;
  for (const auto& epoch : history.epochs) {
    if (epoch.activation_variances.empty()) return false;
  }
  return true;
}

void read_for_findings(const std::string& bytes) {
  static const InputFolder folder;
  static const auto config = folder.write(kConfigFile, RunConfig().to_json());
  folder.write(kMetricsFile, bytes);
  auto history = RunHistory::read(folder.path(), RunHistory::Detail::WithoutSteps);
  history.finished = !history.divergence;
  // A run is as long as it is: nobody would wait for 200 epochs of an input.
  const auto epochs = static_cast<std::int64_t>(history.epochs.size());
  history.config.epochs = epochs + (history.divergence ? 1 : 0);
  for (auto& [experiment, found] : planned_experiments()) {
    for (auto& [planned, carried_out] : found.runs) {
      planned.config.epochs = history.config.epochs;
      carried_out.reset();
      if (is_usable(history, planned)) carried_out = history;
    }
    experiment->to_json(found);
    experiment->findings(found);
  }
}

std::string records_of(const RunHistory& history) {
  std::string lines;
  for (const auto& epoch : history.epochs) lines += to_record(epoch).dump() + "\n";
  if (history.divergence) lines += to_record(*history.divergence).dump() + "\n";
  return lines;
}

std::vector<Seed> run_findings_seeds() {
  auto whole = testing::history_with({0.4, 0.7});
  testing::add_variances(whole, 0.5);
  return {{"two_epochs", records_of(whole)},
          {"ended", records_of(testing::ended_after({0.4}))},
          {"ended_at_once", records_of(testing::ended_after({}))},
          {"not_finite", records_of(testing::diverged_in(1, {0.4, 0.7}))}};
}

}  // namespace

FuzzTarget run_findings_target() { return {"run_findings", read_for_findings, run_findings_seeds}; }

}  // namespace adaact::fuzz
