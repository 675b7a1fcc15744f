#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <adaact/report/run_history.h>
#include <adaact/train/run_config.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "experiments/shelf/machine.h"
#include "report/page.h"

namespace adaact {

/// What is to be carried out: the paper's setting, or less of it.
struct ExperimentForm {
  bool quick = false;                // minutes on two cores; not the paper's setting
  std::string dataset;               // empty: the paper's; of a quick form Fashion-MNIST
  std::vector<std::uint64_t> seeds;  // empty: the experiment's own
  // A part of the plan for part_of_plan(): its runs of these alone, and no measurements. Empty: all. Pages are of the
  // whole plan.
  std::vector<std::string> models = {};
  std::vector<std::string> optimizers = {};
};

/// A training run that an experiment needs.
struct PlannedRun {
  std::string series;  // what it is called in legends: "AdaAct", "p = 0.25"
  RunConfig config;    // what it computes; the machine's fields are left as they are
  bool activation_variances = false;
};

/// The name, among a measurement's values, of where it was carried out.
inline constexpr char kEnvironment[] = "environment";

/// Numbers, and tensors where numbers would be too many.
struct Measured {
  nlohmann::ordered_json values;
  std::map<std::string, torch::Tensor> tensors;
};

/// Something measured that is no training run, or is made from one.
struct PlannedMeasurement {
  std::string series;
  nlohmann::ordered_json setting;  // all that decides what comes out
  /// The trained model of one of the plan's runs, where the measurement is of it.
  std::optional<PlannedRun> of_run;
  /// `model_file` is of_run's model.safetensors, else empty. `progress` takes a line for the user.
  std::function<Measured(const Machine& machine, const std::filesystem::path& model_file,
                         const std::function<void(const std::string&)>& progress)>
      measure;
  /// What is known of how long it takes: as long as these runs together, or so many seconds on two cores.
  std::vector<RunConfig> as_long_as = {};
  double seconds_on_two_cores = 0.0;
  /// Numbers that earlier versions did not measure: without them what is there will not do.
  std::vector<std::string> needed_values = {};
  /// Throws where numbers or tensors, which come from a file, are not such as were measured: nobody could
  /// draw them.
  std::function<void(const Measured& measured)> check = {};
};

struct ExperimentPlan {
  std::vector<PlannedRun> runs;
  std::vector<PlannedMeasurement> measurements;
  std::string obstacle;  // why this version cannot carry it out; empty where it can
  /// What the folder of the data must hold, where nobody else than the user has them.
  std::string wanted_data;
  std::int64_t wanted_classes = 0;  // of the data; 0: any number
};

/// What is there of a plan, in its order; nothing where it was not carried out yet.
struct Found {
  struct Run {
    PlannedRun planned;
    std::optional<RunHistory> history;  // finished, or diverged
  };
  struct Measurement {
    PlannedMeasurement planned;
    std::optional<Measured> measured;
  };
  std::vector<Run> runs;
  std::vector<Measurement> measurements;

  bool is_empty() const;
  bool is_complete() const;
  /// What is still to be carried out.
  ExperimentPlan missing() const;
};

/// Something that the paper says, beside what was measured.
struct Finding {
  enum class Verdict : std::uint8_t { Agrees, Disagrees, Open };
  std::string claim;
  std::string measured;
  Verdict verdict = Verdict::Open;
};

inline Finding::Verdict verdict_if(bool agrees) {
  return agrees ? Finding::Verdict::Agrees : Finding::Verdict::Disagrees;
}

/// A figure or a table of the paper.
class Experiment {
 public:
  virtual ~Experiment() = default;

  virtual std::string name() const = 0;   // "fig-power"
  virtual std::string title() const = 0;  // "Figure 3: the power of V"
  virtual std::string shows() const = 0;  // one line, for the list

  virtual ExperimentPlan plan(const ExperimentForm& form) const = 0;

  /// Draws figures and tables of what is there.
  virtual void draw(const Found& found, Page& page) const = 0;
  /// The paper's claims beside what was found. Asked of the paper's own setting only.
  virtual std::vector<Finding> findings(const Found& found) const = 0;
  /// What --json prints.
  virtual nlohmann::ordered_json to_json(const Found& found) const = 0;
};

/// The part of an experiment's plan that the form names, to be trained or listed. An error where there is no such part.
ExperimentPlan part_of_plan(const Experiment& experiment, const ExperimentForm& form);

}  // namespace adaact
