#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <adaact/io/safetensors.h>
#include <adaact/train/evaluate_weights.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "eval_details.h"
#include "io/error_text.h"
#include "io/printable.h"
#include "output.h"
#include "report/find_runs.h"
#include "report/format.h"
#include "report/mean_and_error.h"
#include "report/named_runs.h"
#include "report/run_groups.h"
#include "run_files.h"
#include "run_options.h"
#include "text_table.h"

namespace adaact::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct EvalArguments {
  RunConfig config;
  std::vector<std::string> runs;
  bool details = false;
  OutputOptions output;
};

DetailedEvaluation evaluated(const RunConfig& config, bool details) {
  if (details) return evaluate_weights_in_detail(config, print_notice);
  return {evaluate_weights(config, print_notice), {}};
}

json to_json(const DetailedEvaluation& result, bool details) {
  json object{{"images", result.sums.images},
              {"loss", result.sums.loss},
              {"top1", result.sums.top1},
              {"top5", result.sums.top5}};
  if (details) object["details"] = details_json(result.details);
  return object;
}

void print_line(const Evaluation& result) {
  std::printf("images %ld  loss %.4f  top-1 %.2f %%  top-5 %.2f %%\n", result.images, result.loss,
              100.0 * result.top1, 100.0 * result.top5);
}

void print(const DetailedEvaluation& result, bool details, Verbosity verbosity) {
  if (verbosity == Verbosity::Quiet) return;
  if (verbosity == Verbosity::Json) {
    print_json(to_json(result, details));
    return;
  }
  print_line(result.sums);
  if (details) print_details(result.details);
}

/// What weights say about themselves counts where the command line says nothing.
void take_from_weights(RunConfig& config, const CLI::App& command) {
  const auto metadata = TensorFile::read(config.weights).metadata;
  if (command.count("--model") > 0 || metadata.count("model") == 0) return;
  config.model = metadata.at("model");
  if (metadata.count("batchnorm") > 0) config.batchnorm = metadata.at("batchnorm") == "true";
  if (command.count("--dataset") == 0 && metadata.count("dataset") > 0) {
    config.dataset = metadata.at("dataset");
  }
}

/// Refuses options beside --run whose values the run itself has.
void refuse_beside_run(const CLI::App& command) {
  for (const char* known : {"--weights", "--model", "--no-batchnorm", "--dataset", "--image-size",
                            "--resize-size", "--crop-ratio", "--seed", "--validation"}) {
    if (command.count(known) > 0) throw CLI::ExcludesError("--run", known);
  }
}

/// Takes model and data from a run; the rest is as the command line has it.
void take_from_run(RunConfig& config, const std::string& run) {
  config.weights = weights_of_run(run).string();
  const auto trained = RunConfig::read(config_of_run(run));
  config.model = trained.model;
  config.batchnorm = trained.batchnorm;
  config.dataset = trained.dataset;
  config.image_size = trained.image_size;
  config.resize_size = trained.resize_size;
  config.seed = trained.seed;
  config.skip_bad_images = config.skip_bad_images || trained.skip_bad_images;
  if (!config.data_dir.empty()) return;
  config.data_dir = trained.data_dir;
  config.validation = trained.validation;  // of the run's own data
}

/// A run with what its weights come to.
struct EvaluatedRun {
  NamedRun run;
  DetailedEvaluation result;
};

/// Mean and standard error of top-1 over the seeds of a group.
MeanAndError top1_of(const RunGroup& group, const std::vector<EvaluatedRun>& all) {
  std::vector<double> values;
  for (const auto* run : group.runs) {
    for (const auto& each : all) {
      if (each.run.history.folder == run->history.folder) values.push_back(each.result.sums.top1);
    }
  }
  return mean_and_error(values);
}

std::vector<RunGroup> seed_groups(const std::vector<NamedRun>& runs) {
  auto groups = groups_of(runs);
  const auto alone = [](const RunGroup& group) { return group.runs.size() == 1; };
  groups.erase(std::remove_if(groups.begin(), groups.end(), alone), groups.end());
  return groups;
}

void print_runs(const std::vector<EvaluatedRun>& all, const std::vector<RunGroup>& seeds,
                bool details) {
  TextTable table;
  table.add_column("run", 20, TextTable::Align::Left);
  for (const char* heading : {"images", "loss", "top-1", "top-5"}) {
    table.add_column(heading, 8, TextTable::Align::Right);
  }
  for (const auto& [run, result] : all) {
    table.add_row({printable(run.name), std::to_string(result.sums.images),
                   decimal(result.sums.loss), percent(result.sums.top1),
                   percent(result.sums.top5)});
  }
  table.print();
  for (const auto& group : seeds) {
    std::printf("%s: top-1 %s, mean of %zu seeds\n", printable(group.name).c_str(),
                percent(top1_of(group, all)).c_str(), group.runs.size());
  }
  if (!details) return;
  for (const auto& [run, result] : all) {
    std::printf("\n%s\n", printable(run.name).c_str());
    print_details(result.details);
  }
}

void print_runs_json(const std::vector<EvaluatedRun>& all, const std::vector<RunGroup>& seeds,
                     bool details) {
  json object{{"runs", json::array()}, {"groups", json::array()}};
  for (const auto& [run, result] : all) {
    object["runs"].push_back(to_json(result, details));
    object["runs"].back()["run"] = run.history.folder.string();
    object["runs"].back()["seed"] = run.history.config.seed;
  }
  for (const auto& group : seeds) {
    const auto top1 = top1_of(group, all);
    json of_group{{"name", group.name},
                  {"runs", json::array()},
                  {"top1_mean", top1.mean},
                  {"top1_standard_error", top1.standard_error}};
    for (const auto* run : group.runs) of_group["runs"].push_back(run->history.folder.string());
    object["groups"].push_back(of_group);
  }
  print_json(object);
}

/// One bad run does not stop the others.
int evaluate_runs(const EvalArguments& arguments, const std::vector<fs::path>& folders) {
  std::vector<EvaluatedRun> all;
  int exit_code = 0;
  for (const auto& folder : folders) {
    try {
      auto config = arguments.config;
      take_from_run(config, folder.string());
      use_available_device_of_run(config);
      NamedRun run{"", RunHistory::read(folder, RunHistory::Detail::WithoutSteps)};
      all.push_back({std::move(run), evaluated(config, arguments.details)});
    } catch (const std::exception& error) {
      print_message(error_text(error));
      exit_code = 1;
    }
  }
  std::vector<NamedRun> runs;
  for (const auto& each : all) runs.push_back(each.run);
  name_by_folders(runs);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].run.name = runs[i].name;
  const auto seeds = seed_groups(runs);
  const auto verbosity = arguments.output.verbosity();
  if (verbosity == Verbosity::Json) print_runs_json(all, seeds, arguments.details);
  if (verbosity == Verbosity::Normal && !all.empty()) print_runs(all, seeds, arguments.details);
  return exit_code;
}

/// Evaluates the run that is named; where what is named holds several, all of them.
int evaluate(EvalArguments& arguments, const CLI::App& command) {
  auto& config = arguments.config;
  const auto verbosity = arguments.output.verbosity();
  if (arguments.output.quiet) silence_notices();
  if (!arguments.runs.empty()) {
    refuse_beside_run(command);
    const auto folders = find_runs({arguments.runs.begin(), arguments.runs.end()});
    if (folders.size() > 1) return evaluate_runs(arguments, folders);
    take_from_run(config, folders.front().string());
  } else {
    if (config.weights.empty()) throw CLI::RequiredError("--run or --weights");
    take_from_weights(config, command);
  }
  use_available_device_of_run(config);
  print(evaluated(config, arguments.details), arguments.details, verbosity);
  return 0;
}

}  // namespace

void add_eval_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<EvalArguments>();
  auto* command = app.add_subcommand("eval", "Evaluate weights on test data");
  command->add_option("--run", arguments->runs, "Runs, or folders that hold runs")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--weights", arguments->config.weights, "safetensors with the model's names");
  command->add_flag("--details", arguments->details, "Accuracy of each class, confusion matrix");
  add_model_and_data_options(*command, arguments->config);
  add_output_options(*command, arguments->output);
  command->callback(
      [arguments, command, &exit_code] { exit_code = evaluate(*arguments, *command); });
}

}  // namespace adaact::app
