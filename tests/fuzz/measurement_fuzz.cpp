// Measurements on a shelf, and what experiments find in them.

#include <map>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "experiments/measure/step_record.h"
#include "experiments/paper/catalog.h"
#include "experiments/shelf/measurement_files.h"
#include "experiments/shelf/run_shelf.h"
#include "fuzz/fuzz_targets.h"
#include "fuzz/input_folder.h"

namespace adaact::fuzz {
namespace {

/// All that any of the experiments asks for.
Measured all_numbers() {
  StepRecord record;
  for (const double value : {0.5, 0.25}) {
    record.add(value);
    record.end_epoch();
  }
  Measured measured;
  auto& values = measured.values;
  values = {{"iterations", {1, 2, 512, 1024}}, {"squared_gradient_norms", {1.0, 0.5, 0.25, 0.1}}};
  for (const char* name : {"change", "growing", "idle_inputs", "inputs_idle_in_one", "awake_change",
                           "awake_step", "awake_root_change", "term_a", "root_norm", "awake_term_a",
                           "awake_root_norm", "term_b", "delta", "norm"}) {
    values[name] = record.to_json();
  }
  const nlohmann::ordered_json shares{{"related_pairs", 0.5},
                                      {"diagonal_mass", 0.5},
                                      {"diagonal_mass_if_alike", 0.5},
                                      {"median_on_diagonal", 1.0},
                                      {"median_off_diagonal", 0.5}};
  values["images"] = 2;
  values["layers"] = nlohmann::ordered_json::array();
  values["layers"].push_back(
      {{"layer", "conv2"}, {"inputs", 3}, {"uncentred", shares}, {"centred", shares}});
  values[kEnvironment] = {{"processor", "a processor"}};
  measured.tensors["conv2"] = torch::ones({3, 3});
  return measured;
}

/// A shelf with every measurement of some experiments.
class MeasuredExperiments {
 public:
  MeasuredExperiments() {
    ExperimentForm form;
    form.seeds = {1};
    for (const auto* experiment :
         {&fig_covariance_heatmap(), &fig_step_size(), &theory_convergence()}) {
      plans_.emplace(experiment, experiment->plan(form));
      for (const auto& planned : plans_[experiment].measurements) {
        auto path = folder_.path() / std::to_string(folders_.size());
        write_measurement(path, planned, all_numbers());
        folders_.push_back(path);
      }
    }
  }

  /// Reads all of them, each with these numbers in the place of its own.
  void read(const std::string& numbers) const {
    for (const auto& folder : folders_) {
      std::ofstream(folder / "measurement.json", std::ios::binary) << numbers;
    }
    read_measurement(folders_.front());  // most inputs end here: a shelf takes much longer
    RunShelf shelf({folder_.path()});
    for (const auto& [experiment, plan] : plans_) {
      const auto found = shelf.find_all(plan);
      experiment->to_json(found);
      experiment->findings(found);
    }
  }

 private:
  InputFolder folder_;
  std::map<const Experiment*, ExperimentPlan> plans_;
  std::vector<std::filesystem::path> folders_;
};

void read_measurement_file(const std::string& bytes) {
  static const MeasuredExperiments experiments;
  static const InputFolder folder;
  experiments.read(bytes);
  folder.write("setting.json", bytes);
  key_of_measurement(folder.path());
}

std::vector<Seed> measurement_seeds() { return {{"all_numbers", all_numbers().values.dump()}}; }

}  // namespace

FuzzTarget measurement_target() {
  return {"measurement", read_measurement_file, measurement_seeds};
}

}  // namespace adaact::fuzz
