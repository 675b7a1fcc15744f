// What a run leaves in its folder, read for reports and experiments: metrics.jsonl, model.safetensors of
// which the header is read, environment.json.

#include <adaact/report/run_history.h>
#include <adaact/train/run_config.h>

#include "experiments/page/experiment_page.h"
#include "experiments/paper/catalog.h"
#include "experiments/shelf/kept_results.h"
#include "fuzz/fuzz_targets.h"
#include "fuzz/input_folder.h"
#include "report/plot_data.h"
#include "report/run_plots.h"
#include "report/run_tables.h"
#include "support/made_up_run.h"
#include "train/run/run_file_names.h"
#include "train/run/run_folder.h"

namespace adaact::fuzz {
namespace {

/// A run's folder with nothing but its configuration.
class RunInputFolder : public InputFolder {
 public:
  RunInputFolder() { write(kConfigFile, RunConfig().to_json()); }
};

void keep_results(const RunHistory& history) {
  static const InputFolder results;
  Found found;
  found.runs.push_back({{"AdaAct", history.config}, history});
  keep(found, results.path());
  for (const auto& entry : std::filesystem::directory_iterator(results.path())) {
    std::filesystem::remove_all(entry.path());
  }
}

void read_metrics_file(const std::string& bytes) {
  static const RunInputFolder folder;
  folder.write(kMetricsFile, bytes);
  const auto history = RunHistory::read(folder.path());
  RunHistory::read(folder.path(), RunHistory::Detail::WithoutSteps);
  history.seconds();
  history.steps_per_epoch();
  history.best_epoch();
  history.diverged_in_epoch();
  const std::vector<NamedRun> runs{{"run", history}};
  summary_table(summaries_of(groups_of(runs)));
  for (const auto quantity : {Quantity::TrainLoss, Quantity::TestAccuracy, Quantity::StepTime}) {
    plot_data(drawable_part(course_plot(groups_of(runs), quantity, Against::Epochs)), "id");
  }
  keep_results(history);
}

std::vector<Seed> metrics_seeds() {
  const InputFolder folder;
  testing::MadeUpRun run;
  run.epochs = 2;
  run.steps_per_epoch = 2;
  run.layers = {"conv1.weight", "fc.weight"};
  testing::write_run(folder.path(), run);
  const auto two_epochs = bytes_of_file(folder.path() / kMetricsFile);
  const std::string with_variances =
      R"({"kind":"epoch","step":2,"epoch":0,"train_loss":null,"train_top1":0.5,"test_loss":1.0,)"
      R"("test_top1":0.5,"test_top5":0.9,"seconds":1,"images_per_second":2,)"
      R"("second_moments":{"fc1":null},"activation_variances":{"fc1":{"mean":1,"lowest_mean":1,)"
      R"("highest_mean":1,"lowest":0,"highest":2}}})";
  return {{"two_epochs", two_epochs},
          {"diverged", testing::made_up_divergence(3, 0).dump() + "\n"},
          {"with_variances", with_variances + "\n"}};
}

void read_run_model(const std::string& bytes) {
  static const RunInputFolder folder;
  folder.write(kModelFile, bytes);
  const auto history = RunHistory::read(folder.path());
  require(history.finished, "a run with a model is not finished");
  require(!history.parameters || *history.parameters >= 0, "a negative number of parameters");
}

std::vector<Seed> run_model_seeds() { return {{"header", testing::made_up_weights()}}; }

/// An experiment of one run that draws nothing: its page still tells of the machine.
class OneRun : public Experiment {
 public:
  std::string name() const override { return "one-run"; }
  std::string title() const override { return "One run"; }
  std::string shows() const override { return "a run"; }
  ExperimentPlan plan(const ExperimentForm& /*form*/) const override { return {}; }
  void draw(const Found& /*found*/, Page& /*page*/) const override {}
  std::vector<Finding> findings(const Found& /*found*/) const override { return {}; }
  nlohmann::ordered_json to_json(const Found& /*found*/) const override { return {}; }
};

/// The first run of an experiment with this history.
Found found_with(const Experiment& experiment, const RunHistory& history) {
  Found found;
  found.runs.push_back({experiment.plan({}).runs.front(), history});
  return found;
}

void read_environment(const std::string& bytes) {
  static const RunInputFolder folder;
  static const RunFolder run(folder.path(), RunConfig(), [] {
    RunSettings settings;
    settings.resume = true;
    return settings;
  }());
  static const auto found = [] {
    RunHistory history;
    history.folder = folder.path();
    history.epochs.emplace_back();
    history.finished = true;
    return found_with(fig_cifar(), history);
  }();
  folder.write(kEnvironmentFile, bytes);
  fig_cifar().findings(found);  // compares times, and so machines
  write_experiment_page(OneRun(), {}, found, folder.path() / "page.html", {"adaact reproduce", {}});
  run.add_environment("cpu");
}

std::vector<Seed> environment_seeds() {
  return {{"two_starts", R"([{"adaact":"0.1.0","processor":"a processor","threads":2},)"
                         R"({"processor":"another","gpu":"a GPU","started":"2026-01-01"}])"}};
}

}  // namespace

FuzzTarget metrics_target() { return {"metrics", read_metrics_file, metrics_seeds}; }
FuzzTarget run_model_target() { return {"run_model", read_run_model, run_model_seeds}; }
FuzzTarget environment_target() { return {"environment", read_environment, environment_seeds}; }

}  // namespace adaact::fuzz
