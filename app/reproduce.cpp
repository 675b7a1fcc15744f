#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <adaact/data/datasets.h>
#include <c10/util/Exception.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "experiment_list.h"
#include "experiments/page/curves.h"
#include "experiments/page/departures.h"
#include "experiments/page/experiment_page.h"
#include "experiments/paper/catalog.h"
#include "experiments/shelf/carry_out.h"
#include "experiments/shelf/cost.h"
#include "experiments/shelf/experiment.h"
#include "experiments/shelf/kept_results.h"
#include "experiments/shelf/run_shelf.h"
#include "io/joined.h"
#include "io/near_miss.h"
#include "io/printable.h"
#include "output.h"
#include "padded.h"
#include "progress.h"
#include "report/format.h"
#include "report/gnuplot.h"
#include "run_options.h"
#include "shell_word.h"

namespace adaact::app {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

struct ReproduceArguments {
  std::string name;
  ExperimentForm form;
  Machine machine;
  std::string data_dir;
  std::string out = "reproduction";
  std::vector<std::string> from;
  std::vector<std::string> also;
  std::string keep;
  bool list = false;
  OutputOptions output;
};

// What is printed of the results.

void print_runs(const Found& found) {
  if (found.runs.size() == found.missing().runs.size()) return;
  std::printf("%-14s%-12s%-26s%-20s%-16s%8s\n", "data", "model", "series", "runs", "test top-1",
              "seconds");
  for (const auto& setting : settings_in(found)) {
    const auto& runs = setting.series.runs;
    if (runs.empty()) continue;
    const auto top1 = final_over_seeds(setting.series);
    char accuracy[40];
    if (std::isnan(top1.standard_error)) {
      std::snprintf(accuracy, sizeof(accuracy), "%.2f %%", 100.0 * top1.mean);
    } else {
      std::snprintf(accuracy, sizeof(accuracy), "%.2f ± %.2f %%", 100.0 * top1.mean,
                    100.0 * top1.standard_error);
    }
    const auto seconds = fastest_training(runs);
    const auto time = seconds ? fixed(*seconds, 1) : "-";
    const auto state = state_of(setting.series);
    std::printf("%-14s%-12s%s%s%s%8s%s\n", setting.dataset.c_str(), setting.model.c_str(),
                padded(printable(setting.series.name), 26).c_str(),
                padded(count_text(runs), 20).c_str(), padded(accuracy, 16).c_str(), time.c_str(),
                (state.empty() ? "" : "  " + state).c_str());
  }
}

void print_findings(const std::vector<Finding>& findings) {
  if (findings.empty()) return;
  std::printf("\nwhat the paper says, and what was measured:\n");
  for (const auto& finding : findings) {
    std::printf("%-10s %s\n           %s\n", verdict_text(finding.verdict).c_str(),
                finding.claim.c_str(), finding.measured.c_str());
  }
}

// Carrying out an experiment.

void check_dataset(const std::string& dataset) {
  const auto known = dataset_names();
  const bool is_known = std::find(known.begin(), known.end(), dataset) != known.end();
  TORCH_CHECK_VALUE(dataset.empty() || is_known, "adaact: there is no data set '", dataset, "'",
                    did_you_mean(dataset, known), "; adaact info lists them");
}

std::set<std::string> datasets_of(const ExperimentPlan& plan) {
  std::set<std::string> datasets;
  for (const auto& run : plan.runs) datasets.insert(run.config.dataset);
  for (const auto& measurement : plan.measurements) {
    if (measurement.setting.contains("dataset")) {
      datasets.insert(measurement.setting.at("dataset").get<std::string>());
    }
  }
  return datasets;
}

/// Sets the folders of the data: --data-dir is that of the one data set, or holds a folder for each
/// of several.
void set_data_dirs(const ReproduceArguments& arguments, const ExperimentPlan& plan,
                   Machine& machine) {
  if (arguments.data_dir.empty()) return;
  const auto datasets = datasets_of(plan);
  const fs::path data_dir = arguments.data_dir;
  for (const auto& dataset : datasets) {
    machine.data_dirs[dataset] =
        datasets.size() == 1 ? arguments.data_dir : (data_dir / dataset).string();
  }
}

/// The shelf with what was carried out before; an empty one the first time.
RunShelf shelf_of(const ReproduceArguments& arguments) {
  std::vector<fs::path> folders{arguments.from.begin(), arguments.from.end()};
  if (folders.empty() && fs::exists(arguments.out)) folders.emplace_back(arguments.out);
  folders.insert(folders.end(), arguments.also.begin(), arguments.also.end());
  return RunShelf(folders);
}

/// Of several seeds the mean is taken, and one that is there twice would count for two.
void check_seeds(const std::vector<std::uint64_t>& seeds) {
  std::set<std::uint64_t> known;
  for (const auto seed : seeds) {
    TORCH_CHECK_VALUE(known.insert(seed).second, "--seeds names ", seed, " twice");
  }
}

/// A place that cannot be written to is found before hours of work, not after.
void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  TORCH_CHECK(!error, "adaact: cannot make the folder ", folder, ": ", error.message());
}

/// What it will cost, before it begins; nothing where all is there.
void announce_cost(const ExperimentPlan& missing, const Machine& machine, Verbosity verbosity) {
  const auto work = pieces_text(missing);
  if (work.empty()) return;
  const bool on_cpu = machine.device == "cpu";
  const auto cost = estimate_cost(missing, on_cpu ? CostOn::TwoCores : CostOn::Gpu);
  const auto time = cost.seconds == 0.0
                        ? std::string("how long it takes is not known")
                        : cost_text(cost) + (on_cpu ? " on two cores" : " on an H200");
  say(verbosity, "to do: " + work + "; " + time + "; Ctrl-C stops it, the same command goes on");
}

/// What stands in the way of training: an obstacle, or data that nobody named; empty where nothing does.
std::string why_not(const ReproduceArguments& arguments, const ExperimentPlan& plan) {
  if (!plan.obstacle.empty()) return "this cannot be carried out: " + plan.obstacle;
  const auto datasets = datasets_of(plan);
  const bool has_data = !arguments.data_dir.empty() ||
                        std::none_of(datasets.begin(), datasets.end(), [](const auto& dataset) {
                          return usual_data_dir(dataset).empty();
                        });
  if (plan.wanted_data.empty() || has_data) return {};
  if (shelf_of(arguments).find_all(plan).is_complete()) return {};
  return "nothing is trained without --data-dir: " + plan.wanted_data;
}

CarryOutResult carry_out_missing(const ReproduceArguments& arguments, const ExperimentPlan& plan) {
  const auto verbosity = arguments.output.verbosity();
  CarryOutOptions options;
  options.machine = arguments.machine;
  if (use_available_device(options.machine)) options.machine.deterministic = false;
  set_data_dirs(arguments, plan, options.machine);
  options.folder = arguments.out;
  options.make_callback = [verbosity] { return make_progress(verbosity); };
  options.on_progress = [verbosity](const std::string& line) {
    say(verbosity, line);
    std::fflush(stdout);
  };
  options.on_message = print_notice;
  announce_cost(shelf_of(arguments).find_all(plan).missing(), options.machine, verbosity);
  auto shelf = shelf_of(arguments);
  return carry_out(plan, shelf, options);
}

std::string command_of(const ReproduceArguments& arguments) {
  auto command = "adaact reproduce " + shell_word(arguments.name);
  const auto add = [&](const std::string& option, const std::string& value) {
    command += " " + option + " " + shell_word(value);
  };
  if (arguments.form.quick) command += " --quick";
  if (!arguments.form.dataset.empty()) add("--dataset", arguments.form.dataset);
  if (!arguments.form.seeds.empty()) add("--seeds", comma_list(arguments.form.seeds));
  if (!arguments.form.models.empty()) add("--models", joined(arguments.form.models, ","));
  if (!arguments.form.optimizers.empty()) {
    add("--optimizers", joined(arguments.form.optimizers, ","));
  }
  for (const auto& folder : arguments.from) add("--from", folder);
  for (const auto& folder : arguments.also) add("--also", folder);
  if (arguments.from.empty()) {
    if (!arguments.data_dir.empty()) add("--data-dir", arguments.data_dir);
    add("--device", arguments.machine.device);
    add("--precision", arguments.machine.precision);
    add("--memory-format", arguments.machine.memory_format);
    if (arguments.machine.image_work != "cpu") add("--image-work", arguments.machine.image_work);
    if (arguments.machine.deterministic) command += " --deterministic";
    if (arguments.machine.threads != 0) {
      add("--threads", std::to_string(arguments.machine.threads));
    }
  }
  add("--out", arguments.out);
  if (!arguments.keep.empty()) add("--keep", arguments.keep);
  return command;
}

void list(const ReproduceArguments& arguments) {
  const auto& form = arguments.form;
  check_dataset(form.dataset);
  check_seeds(form.seeds);
  auto shelf = shelf_of(arguments);
  if (arguments.name.empty()) {
    const bool is_whole = !form.quick && form.dataset.empty() && form.seeds.empty() &&
                          form.models.empty() && form.optimizers.empty();
    if (!is_whole) throw CLI::RequiredError("the name of an experiment, of which to list a part,");
    print_experiments(shelf, arguments.output.json);
  } else {
    print_settings(experiment_named(arguments.name), form, shelf, arguments.output.json);
  }
  for (const auto& message : shelf.messages()) print_notice(message);
}

int reproduce(const ReproduceArguments& arguments) {
  const auto verbosity = arguments.output.verbosity();
  if (verbosity == Verbosity::Quiet) silence_notices();
  const auto& experiment = experiment_named(arguments.name);
  check_dataset(arguments.form.dataset);
  check_seeds(arguments.form.seeds);
  const auto part = part_of_plan(experiment, arguments.form);
  make_folder(arguments.out);
  if (!arguments.keep.empty()) make_folder(arguments.keep);
  check_gnuplot();
  const auto departures = departures_from_paper(experiment, arguments.form);
  if (!departures.empty()) print_notice("this is not the paper's setting: " + joined(departures));

  CarryOutResult result;
  if (arguments.from.empty()) {
    const auto obstacle = why_not(arguments, part);
    if (obstacle.empty()) {
      result = carry_out_missing(arguments, part);
    } else {
      result.failures.push_back(obstacle);
    }
  }
  if (result.signal != 0) {
    say(verbosity,
        "interrupted; the same command goes on with the run, and begins a measurement anew");
    return 128 + result.signal;
  }

  auto shelf = shelf_of(arguments);
  const auto found =
      shelf.find_all(experiment.plan(arguments.form), seeds_that_count(arguments.form));
  for (const auto& message : shelf.messages()) print_notice(message);
  if (!arguments.keep.empty()) {
    for (const auto& message : keep(found, arguments.keep)) print_notice(message);
  }
  const auto page = fs::path(arguments.out) / (experiment.name() + ".html");
  write_experiment_page(
      experiment, arguments.form, found, page,
      {command_of(arguments), {{"adaact", ADAACT_VERSION}, {"LibTorch", TORCH_VERSION}}});

  if (verbosity == Verbosity::Normal) {
    print_runs(found);
    if (departures.empty()) print_findings(experiment.findings(found));
    const auto missing = pieces_text(found.missing());
    if (!missing.empty()) std::printf("not there yet: %s\n", missing.c_str());
    std::printf("the page is in %s\n", page.c_str());
  }
  if (verbosity == Verbosity::Json) print_json(experiment.to_json(found));
  for (const auto& failure : result.failures) print_message(failure);
  return result.failures.empty() ? 0 : 1;
}

}  // namespace

void add_reproduce_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ReproduceArguments>();
  auto& form = arguments->form;
  auto& machine = arguments->machine;
  auto* command = app.add_subcommand("reproduce", "Carry out a figure or a table of the paper");

  command->add_option("name", arguments->name, "Of the experiment; --list shows them");
  command->add_flag("--list", arguments->list,
                    "What there is, what is missing and what that costs");
  command->add_flag("--quick", form.quick, "In minutes on two cores; not the paper's setting");
  command->add_option("--dataset", form.dataset, "In place of the paper's");
  command->add_option("--seeds", form.seeds, "As 0,1,2")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(not_negative());
  const auto add_part = [&](const char* option, std::vector<std::string>& names,
                            const char* meaning) {
    command->add_option(option, names, meaning)
        ->delimiter(',')
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  add_part("--models", form.models, "Train or list only these, as resnet20,resnet34");
  add_part("--optimizers", form.optimizers, "Train or list only these, as adaact,sgd");
  add_option(*command, "--out", arguments->out, "Folder of the page and of what is trained");
  command
      ->add_option("--from", arguments->from,
                   "Folders with runs: draw what is there, train nothing")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--also", arguments->also,
                   "Folders with runs that need not be carried out again")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--keep", arguments->keep, "Folder for the small files of what is there");

  command->add_option("--data-dir", arguments->data_dir,
                      "Where the data are; of several, their folders");
  add_option(*command, "--device", machine.device, "cpu, cuda or cuda:N");
  add_option(*command, "--precision", machine.precision, "fp32, tf32 or bf16");
  add_option(*command, "--memory-format", machine.memory_format, "contiguous or channels-last");
  command->add_flag("--deterministic", machine.deterministic, "On a GPU, where it costs time");
  add_option(*command, "--threads", machine.threads, "Threads that compute; 0: one for each core");
  add_option(*command, "--workers", machine.workers, "Threads that prepare data");
  add_image_work_option(*command, machine.image_work);
  add_output_options(*command, arguments->output);

  command->callback([arguments, command, &exit_code] {
    for (const char* of_training : {"--data-dir", "--device", "--precision", "--memory-format",
                                    "--deterministic", "--threads", "--workers", "--image-work"}) {
      if (command->count("--from") > 0 && command->count(of_training) > 0) {
        throw CLI::ExcludesError("--from", of_training);
      }
    }
    // What is drawn is always the whole.
    for (const char* of_part : {"--models", "--optimizers"}) {
      if (!arguments->list && command->count("--from") > 0 && command->count(of_part) > 0) {
        throw CLI::ExcludesError("--from", of_part);
      }
    }
    if (arguments->list) {
      list(*arguments);
      exit_code = 0;
      return;
    }
    if (arguments->name.empty()) throw CLI::RequiredError("the name of an experiment, or --list,");
    exit_code = reproduce(*arguments);
  });
}

}  // namespace adaact::app
