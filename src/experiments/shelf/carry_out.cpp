#include "experiments/shelf/carry_out.h"

#include <algorithm>
#include <set>

#include <adaact/data/datasets.h>
#include <adaact/optim/non_finite.h>
#include <adaact/train/training_run.h>
#include <c10/util/Exception.h>

#include "experiments/shelf/divergence.h"
#include "experiments/shelf/machine.h"
#include "experiments/shelf/measurement_files.h"
#include "experiments/shelf/run_key.h"
#include "io/error_text.h"
#include "train/run/environment.h"
#include "train/run/interrupt.h"
#include "train/run/run_file_names.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

/// Thrown where a measurement tells of its progress, to end it.
struct Interrupted {};

class Workshop {
 public:
  Workshop(const ExperimentPlan& plan, RunShelf& shelf, const CarryOutOptions& options)
      : shelf_(shelf),
        options_(options),
        wanted_data_(plan.wanted_data),
        wanted_classes_(plan.wanted_classes) {
    for (const auto& run : plan.runs) {
      if (shelf_.find(run).empty()) missing_runs_.push_back(run);
    }
    for (const auto& measurement : plan.measurements) {
      if (shelf_.find(measurement)) continue;
      missing_measurements_.push_back(measurement);
      if (measurement.of_run) need_model_of(*measurement.of_run);
    }
    check_work();
  }

  CarryOutResult work() {
    const InterruptGuard interrupts;  // also between two runs
    const auto pieces = std::to_string(missing_runs_.size() + missing_measurements_.size());
    std::size_t piece = 0;
    const auto announce = [&](const std::string& name) {
      options_.on_progress(std::to_string(++piece) + " of " + pieces + ": " + name);
    };
    for (const auto& run : missing_runs_) {
      if (InterruptGuard::received() != 0) break;
      announce(run.series + ", " + folder_name(run));
      attempt(folder_name(run), [&] { carry_out_run(run); });
    }
    for (const auto& measurement : missing_measurements_) {
      if (InterruptGuard::received() != 0) break;
      announce(measurement.series + ", " + folder_name(measurement));
      attempt(folder_name(measurement), [&] { measure(measurement); });
    }
    result_.signal = InterruptGuard::received();
    return result_;
  }

 private:
  void need_model_of(const PlannedRun& run) {
    if (!shelf_.find_model(run).empty()) return;
    const auto name = folder_name(run);
    const bool planned =
        std::any_of(missing_runs_.begin(), missing_runs_.end(),
                    [&](const PlannedRun& other) { return folder_name(other) == name; });
    if (planned) return;
    if (const auto found = shelf_.find(run); !found.empty()) {
      if (found.front().divergence) return;  // there never will be a model
      options_.on_message(name + " is there without its model, which is needed: trained again");
    }
    missing_runs_.push_back(run);
  }

  /// Hours of work should not end at an option that is wrong, or at a data set that was never there.
  void check_work() const {
    std::set<std::string> datasets;
    for (const auto& run : missing_runs_) {
      on_machine(run.config, options_.machine).resolve();
      datasets.insert(run.config.dataset);
    }
    for (const auto& measurement : missing_measurements_) {
      const auto dataset = measurement.setting.find("dataset");
      if (dataset != measurement.setting.end()) datasets.insert(dataset->get<std::string>());
    }
    for (const auto& dataset : datasets) check_data(dataset);
  }

  void check_data(const std::string& dataset) const {
    RunConfig config;
    config.dataset = dataset;
    DatasetOptions one_image;
    one_image.data_dir = on_machine(config, options_.machine).data_dir;
    one_image.split = Split::Test;
    one_image.limit = 1;
    const auto classes = open_dataset(dataset, one_image)->classes();
    TORCH_CHECK_VALUE(wanted_classes_ == 0 || classes == wanted_classes_, "data_dir is '",
                      one_image.data_dir.string(), "', which has ", classes, " classes, expected ",
                      wanted_classes_, ": ", wanted_data_);
  }

  fs::path folder_of(const PlannedRun& run) const {
    return options_.folder / "runs" / folder_name(run);
  }

  void attempt(const std::string& name, const std::function<void()>& piece) {
    try {
      piece();
    } catch (const Interrupted&) {
      return;  // work() sees the signal too
    } catch (const std::exception& error) {
      result_.failures.push_back(name + ": " + error_text_within_line(error));
    }
  }

  /// Trains a run. One that diverges is no failure.
  void carry_out_run(const PlannedRun& run) const {
    try {
      train(run);
    } catch (const NonFiniteError& error) {
      const auto history = RunHistory::read(folder_of(run), RunHistory::Detail::WithoutSteps);
      options_.on_progress(divergence_text({&history}) + ": " + error.what());
    }
  }

  void train(const PlannedRun& run) const {
    RunSettings settings;
    settings.resume = true;
    settings.workers = options_.machine.workers;
    settings.image_work = options_.machine.image_work;
    settings.activation_variances = run.activation_variances;
    settings.on_message = options_.on_message;
    const auto callback = options_.make_callback();
    auto config = on_machine(run.config, options_.machine);
    // A run that was begun with other threads goes on with them, where this machine can: its last
    // bits depend on their number.
    const auto begun = folder_of(run) / kConfigFile;
    if (fs::exists(begun)) {
      const auto threads = RunConfig::read(begun).threads;
      if (threads <= most_threads()) config.threads = threads;
    }
    TrainingRun(config, folder_of(run), settings).run(*callback);
  }

  void measure(const PlannedMeasurement& measurement) const {
    fs::path model;
    if (measurement.of_run) {
      model = folder_of(*measurement.of_run) / kModelFile;
      if (!fs::exists(model)) model = shelf_.find_model(*measurement.of_run);
      TORCH_CHECK(!model.empty(), "the run that it is of has no model");
    }
    const auto progress = [this](const std::string& line) {
      if (InterruptGuard::received() != 0) throw Interrupted();
      options_.on_progress(line);
    };
    const auto environment = describe_environment(options_.machine.device);  // has the time
    auto measured = measurement.measure(options_.machine, model, progress);
    measured.values[kEnvironment] = environment;
    write_measurement(options_.folder / "measurements" / folder_name(measurement), measurement,
                      measured);
  }

  RunShelf& shelf_;
  const CarryOutOptions& options_;
  const std::string wanted_data_;
  const std::int64_t wanted_classes_;
  std::vector<PlannedRun> missing_runs_;
  std::vector<PlannedMeasurement> missing_measurements_;
  CarryOutResult result_;
};

}  // namespace

CarryOutResult carry_out(const ExperimentPlan& plan, RunShelf& shelf,
                         const CarryOutOptions& options) {
  TORCH_CHECK(plan.obstacle.empty(), "adaact: this cannot be carried out: ", plan.obstacle);
  return Workshop(plan, shelf, options).work();
}

}  // namespace adaact
