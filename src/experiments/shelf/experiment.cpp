#include "experiments/shelf/experiment.h"

#include <algorithm>

#include <c10/util/Exception.h>

#include "io/joined.h"

namespace adaact {
namespace {

bool run_is_there(const Found::Run& run) { return run.history.has_value(); }
bool measurement_is_there(const Found::Measurement& measurement) {
  return measurement.measured.has_value();
}

/// Leaves the runs whose model, or optimizer, is among these. Names that the plan does not have are errors.
void keep_only(const std::vector<std::string>& wanted, std::string RunConfig::*field,
               const char* what, const std::string& experiment, ExperimentPlan& plan) {
  if (wanted.empty()) return;
  std::vector<std::string> there;
  for (const auto& run : plan.runs) {
    const auto& name = run.config.*field;
    if (std::find(there.begin(), there.end(), name) == there.end()) there.push_back(name);
  }
  for (const auto& name : wanted) {
    TORCH_CHECK_VALUE(std::find(there.begin(), there.end(), name) != there.end(),
                      "adaact: ", experiment, " has no runs of the ", what, " '", name, "'",
                      there.empty() ? "" : "; it has: " + joined(there));
  }
  const auto is_unwanted = [&](const PlannedRun& run) {
    return std::find(wanted.begin(), wanted.end(), run.config.*field) == wanted.end();
  };
  plan.runs.erase(std::remove_if(plan.runs.begin(), plan.runs.end(), is_unwanted), plan.runs.end());
  plan.measurements.clear();
}

}  // namespace

ExperimentPlan part_of_plan(const Experiment& experiment, const ExperimentForm& form) {
  auto plan = experiment.plan(form);
  keep_only(form.models, &RunConfig::model, "model", experiment.name(), plan);
  keep_only(form.optimizers, &RunConfig::optimizer, "optimizer", experiment.name(), plan);
  return plan;
}

bool Found::is_empty() const {
  return std::none_of(runs.begin(), runs.end(), run_is_there) &&
         std::none_of(measurements.begin(), measurements.end(), measurement_is_there);
}

bool Found::is_complete() const {
  return std::all_of(runs.begin(), runs.end(), run_is_there) &&
         std::all_of(measurements.begin(), measurements.end(), measurement_is_there);
}

ExperimentPlan Found::missing() const {
  ExperimentPlan missing;
  for (const auto& run : runs) {
    if (!run_is_there(run)) missing.runs.push_back(run.planned);
  }
  for (const auto& measurement : measurements) {
    if (!measurement_is_there(measurement)) missing.measurements.push_back(measurement.planned);
  }
  return missing;
}

}  // namespace adaact
