#include "experiment_list.h"

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "experiments/paper/catalog.h"
#include "experiments/shelf/cost.h"
#include "io/joined.h"
#include "io/printable.h"
#include "output.h"
#include "padded.h"
#include "report/format.h"

namespace adaact::app {
namespace {

using nlohmann::ordered_json;

std::string two_cores_cost(const ExperimentPlan& plan) {
  return cost_text(estimate_cost(plan, CostOn::TwoCores));
}

std::string gpu_cost(const ExperimentPlan& plan) {
  return cost_text(estimate_cost(plan, CostOn::Gpu));
}

std::size_t pieces_in(const ExperimentPlan& plan) {
  return plan.runs.size() + plan.measurements.size();
}

/// "5 of 35 runs are there; the rest takes about 3 h on an H200"
std::string what_is_there(const ExperimentPlan& plan, const ExperimentPlan& missing) {
  const auto pieces = pieces_text(plan);
  if (pieces_in(missing) == 0) return "all is there: " + pieces;
  const auto there = pieces_in(plan) - pieces_in(missing);
  return (there == 0 ? "nothing" : std::to_string(there)) + " of " + pieces +
         (there > 1 ? " are" : " is") + " there; the rest takes " + gpu_cost(missing) +
         " on an H200";
}

/// An experiment without runs and measurements in a quick form cannot be carried out in the other either.
std::string quick_cost(const Experiment& experiment) {
  ExperimentForm quick;
  quick.quick = true;
  const auto plan = experiment.plan(quick);
  return plan.obstacle.empty() ? two_cores_cost(plan) : kNothing;
}

std::vector<std::uint64_t> missing_seeds(const Setting& setting) {
  std::vector<std::uint64_t> seeds;
  for (const auto& run : setting.missing.runs) seeds.push_back(run.config.seed);
  return seeds;
}

ordered_json to_json(const Setting& setting) {
  return {{"dataset", setting.dataset},
          {"model", setting.model},
          {"series", setting.series.name},
          {"seeds", seeds_in(setting.series.runs)},
          {"runs", setting.series.runs.size()},
          {"missing_seeds", missing_seeds(setting)},
          {"two_cores", two_cores_cost(setting.missing)},
          {"h200", gpu_cost(setting.missing)}};
}

void print(const Setting& setting) {
  const auto& runs = setting.series.runs;
  const auto there = runs.empty() ? kNothing : count_text(runs);
  const auto seeds = comma_list(missing_seeds(setting));
  std::printf("%-14s%-13s%s%s%s%s%s\n", setting.dataset.c_str(), setting.model.c_str(),
              padded(printable(setting.series.name), 26).c_str(), padded(there, 20).c_str(),
              padded(seeds.empty() ? kNothing : seeds, 16).c_str(),
              padded(two_cores_cost(setting.missing), 16).c_str(),
              gpu_cost(setting.missing).c_str());
}

}  // namespace

SeedsThatCount seeds_that_count(const ExperimentForm& form) {
  return form.seeds.empty() ? SeedsThatCount::All : SeedsThatCount::Planned;
}

std::vector<Setting> settings_in(const Found& found) {
  std::vector<Setting> settings;
  for (const auto& run : found.runs) {
    const auto& config = run.planned.config;
    auto setting = std::find_if(settings.begin(), settings.end(), [&](const Setting& each) {
      return each.dataset == config.dataset && each.model == config.model &&
             each.series.name == run.planned.series;
    });
    if (setting == settings.end()) {
      const RunSeries series{run.planned.series, 0, {}};
      setting = settings.insert(setting, {config.dataset, config.model, series, {}});
    }
    if (run.history) {
      setting->series.runs.push_back(&*run.history);
    } else {
      setting->missing.runs.push_back(run.planned);
    }
  }
  return settings;
}

std::string pieces_text(const ExperimentPlan& plan) {
  std::vector<std::string> pieces;
  const auto add = [&](std::size_t count, const std::string& thing) {
    if (count == 0) return;
    pieces.push_back(std::to_string(count) + " " + thing + (count == 1 ? "" : "s"));
  };
  add(plan.runs.size(), "run");
  add(plan.measurements.size(), "measurement");
  return joined(pieces);
}

std::string comma_list(const std::vector<std::uint64_t>& seeds) {
  std::string list;
  for (const auto seed : seeds) list += (list.empty() ? "" : ",") + std::to_string(seed);
  return list;
}

void print_experiments(RunShelf& shelf, bool as_json) {
  auto list = ordered_json::array();
  if (!as_json) std::printf("%-25s%-16s%-16s%s\n", "", "two cores", "H200", "--quick, two cores");
  for (const auto* experiment : experiments()) {
    const auto plan = experiment->plan({});
    const auto missing = shelf.find_all(plan).missing();
    if (as_json) {
      list.push_back({{"name", experiment->name()},
                      {"title", experiment->title()},
                      {"shows", experiment->shows()},
                      {"two_cores", two_cores_cost(plan)},
                      {"h200", gpu_cost(plan)},
                      {"quick", quick_cost(*experiment)},
                      {"obstacle", plan.obstacle},
                      {"there", pieces_in(plan) - pieces_in(missing)},
                      {"missing", pieces_in(missing)},
                      {"missing_two_cores", two_cores_cost(missing)},
                      {"missing_h200", gpu_cost(missing)}});
      continue;
    }
    std::printf("%s%s%s%s\n  %s%s\n", padded(experiment->name(), 25).c_str(),
                padded(two_cores_cost(plan), 16).c_str(), padded(gpu_cost(plan), 16).c_str(),
                quick_cost(*experiment).c_str(), experiment->shows().c_str(),
                plan.obstacle.empty() ? "" : "; planned only");
    std::printf("  %s\n", what_is_there(plan, missing).c_str());
  }
  if (as_json) {
    print_json(list);
    return;
  }
  std::printf(
      "\nOf training, without evaluation. On the H200 with --device cuda --precision bf16\n"
      "--memory-format channels-last; FOOF, KFAC, the full covariance and ResNet-32 in tf32, "
      "before\n"
      "layers were fused. With the name of one: its settings one by one.\n");
}

void print_settings(const Experiment& experiment, const ExperimentForm& form, RunShelf& shelf,
                    bool as_json) {
  const auto plan = part_of_plan(experiment, form);
  const auto found = shelf.find_all(plan, seeds_that_count(form));
  const auto missing = found.missing();
  const auto settings = settings_in(found);
  if (as_json) {
    auto list = ordered_json::array();
    for (const auto& setting : settings) list.push_back(to_json(setting));
    print_json(ordered_json{{"name", experiment.name()},
                            {"obstacle", plan.obstacle},
                            {"settings", list},
                            {"measurements", plan.measurements.size()},
                            {"missing_measurements", missing.measurements.size()},
                            {"missing_two_cores", two_cores_cost(missing)},
                            {"missing_h200", gpu_cost(missing)}});
    return;
  }
  std::printf("%s: %s\n", experiment.name().c_str(), experiment.title().c_str());
  if (!settings.empty()) {
    std::printf("%-14s%-13s%-26s%-20s%-16s%-16s%s\n", "data", "model", "series", "there",
                "missing seeds", "on two cores", "on an H200");
  }
  for (const auto& setting : settings) print(setting);
  std::printf("%s\n", what_is_there(plan, missing).c_str());
  if (!plan.obstacle.empty()) std::printf("planned only: %s\n", plan.obstacle.c_str());
}

}  // namespace adaact::app
