#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/page/curves.h"
#include "experiments/shelf/experiment.h"
#include "experiments/shelf/run_shelf.h"

namespace adaact::app {

/// What --seeds leaves of a shelf: where no seeds are named all of them count.
SeedsThatCount seeds_that_count(const ExperimentForm& form);

/// Runs of a plan that differ in their seeds alone.
struct Setting {
  std::string dataset;
  std::string model;
  RunSeries series;        // of runs that are there
  ExperimentPlan missing;  // runs that are not
};

/// The settings of a plan, in its order. They refer to `found`.
std::vector<Setting> settings_in(const Found& found);

/// "12 runs", "1 run, 2 measurements"; empty of an empty plan.
std::string pieces_text(const ExperimentPlan& plan);

/// "0,1,2"
std::string comma_list(const std::vector<std::uint64_t>& seeds);

/// All experiments with what they cost, what is there and what the rest costs.
void print_experiments(RunShelf& shelf, bool as_json);

/// One experiment, setting by setting: runs that are there, seeds that are missing, what those cost.
void print_settings(const Experiment& experiment, const ExperimentForm& form, RunShelf& shelf,
                    bool as_json);

}  // namespace adaact::app
