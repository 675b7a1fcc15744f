#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "given_command.h"
#include "io/printable.h"
#include "output.h"
#include "padded.h"
#include "report/format.h"
#include "report/gnuplot.h"
#include "run_options.h"
#include "sweep/carry_out_sweep.h"
#include "sweep/sweep_page.h"
#include "sweep_progress.h"
#include "training_options.h"

namespace adaact::app {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

struct SweepArguments {
  SweepPlan plan;
  RunSettings run;
  std::string out;
  std::vector<std::string> rates_of;  // "adam=0.001,0.003"
  std::int64_t jobs = 0;
  bool resume = false;
  bool halving = true;
  std::string graph = "on";
  OutputOptions output;
};

// What is printed of the results.

std::string epochs_of_trial(const TrialResult& result) {
  return std::to_string(result.accuracies.size()) + "/" +
         std::to_string(result.trial.config.epochs);
}

std::string top1_of_trial(const TrialResult& result) {
  return result.accuracy() ? percent(*result.accuracy()) : kNothing;
}

/// What the table says of a trial that did not come to its end.
std::string remark_on_trial(const TrialResult& result) {
  if (result.state == TrialState::Finished) return "";
  if (result.state == TrialState::Diverged) {
    return "diverged in epoch " + std::to_string(result.diverged_in_epoch);
  }
  return to_string(result.state);
}

/// Columns as wide as what they hold, and no spaces at the end of a line.
void print_columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], letters_in(row[i]));
    }
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += padded(row[i], widths[i] + 2);
    std::printf("%s\n", line.substr(0, line.find_last_not_of(' ') + 1).c_str());
  }
}

void print_trials(const std::vector<TrialResult>& trials) {
  std::vector<std::vector<std::string>> rows{{"trial", "epochs", "test top-1", "seconds", ""}};
  for (const auto& each : from_best_to_worst(trials)) {
    rows.push_back({each.trial.name, epochs_of_trial(each), top1_of_trial(each),
                    fixed(each.seconds, 1), remark_on_trial(each)});
  }
  std::printf("\n");
  print_columns(rows);
  rows = {{"best of", "lr", "weight decay", "test top-1", ""}};
  for (const auto& best : best_trials(trials)) {
    const auto& trial = best.result.trial;
    rows.push_back({trial.config.optimizer, shortest(trial.learning_rate),
                    shortest(trial.weight_decay), top1_of_trial(best.result), remark_on(best)});
  }
  if (rows.size() == 1) return;
  std::printf("\n");
  print_columns(rows);
}

ordered_json json_of_trial(const TrialResult& result) {
  ordered_json object{{"trial", result.trial.name},
                      {"run", result.folder.string()},
                      {"optimizer", result.trial.config.optimizer},
                      {"lr", result.trial.learning_rate},
                      {"weight_decay", result.trial.weight_decay},
                      {"state", to_string(result.state)},
                      {"epochs", result.accuracies.size()}};
  if (result.accuracy()) {
    object["test_top1"] = *result.accuracy();
    object["train_loss"] = result.train_loss;
    object["seconds"] = result.seconds;
  }
  if (result.diverged_in_epoch > 0) object["diverged_in_epoch"] = result.diverged_in_epoch;
  if (!result.error.empty()) object["error"] = result.error;
  return object;
}

ordered_json json_of_sweep(const SweepArguments& arguments, const SweepResult& result,
                           const fs::path& page) {
  ordered_json object{{"sweep", arguments.out}, {"interrupted", result.signal != 0}};
  if (!page.empty()) object["page"] = page.string();
  object["best"] = ordered_json::array();
  for (const auto& best : best_trials(result.trials)) {
    const auto& trial = best.result.trial;
    object["best"].push_back({{"optimizer", trial.config.optimizer},
                              {"trial", trial.name},
                              {"lr", trial.learning_rate},
                              {"weight_decay", trial.weight_decay},
                              {"test_top1", best.result.accuracy().value_or(0.0)},
                              {"least_lr_tried", best.is_least_rate},
                              {"greatest_lr_tried", best.is_greatest_rate}});
  }
  object["trials"] = ordered_json::array();
  for (const auto& each : from_best_to_worst(result.trials)) {
    object["trials"].push_back(json_of_trial(each));
  }
  return object;
}

// What is asked for.

/// "adam=0.001,0.003"
void add_rates_of(const std::string& text, SweepPlan& plan) {
  const auto refuse = [&] {
    throw CLI::ValidationError("--lr-of", "is '" + text +
                                              "', expected an optimizer and its learning rates, "
                                              "as adam=0.001,0.003");
  };
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) refuse();
  auto& rates = plan.learning_rates_of[text.substr(0, equals)];
  for (auto begin = equals; begin != std::string::npos;) {
    const auto end = text.find(',', begin + 1);
    const auto number = text.substr(begin + 1, end == std::string::npos ? end : end - begin - 1);
    char* rest = nullptr;
    const auto rate = std::strtod(number.c_str(), &rest);
    if (number.empty() || *rest != '\0') refuse();
    rates.push_back(rate);
    begin = end;
  }
}

/// The plan that the command line describes, or the one in the folder.
SweepPlan plan_of(const SweepArguments& arguments, const CLI::App& command, std::int64_t& jobs) {
  const auto cores = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  if (arguments.resume) {
    auto plan = read_sweep(arguments.out);
    jobs = share_cores(plan.base, plan.size(), arguments.jobs, cores).jobs;
    return plan;
  }
  auto plan = arguments.plan;
  use_available_device_of_run(plan.base);
  // What was begun with other threads goes on with them: the last bits depend on their number.
  if (plan.base.threads == 0 && holds_sweep(arguments.out)) {
    plan.base.threads = read_sweep(arguments.out).base.threads;
  }
  const auto shared = share_cores(plan.base, plan.size(), arguments.jobs, cores);
  jobs = shared.jobs;
  if (plan.base.device == "cpu" && plan.base.threads == 0) plan.base.threads = shared.threads;
  check_usage(command, [&] {
    for (const auto& each : arguments.rates_of) add_rates_of(each, plan);
    plan.resolve();
  });
  return plan;
}

int run_sweep(const SweepArguments& arguments, const CLI::App& command) {
  const auto verbosity = arguments.output.verbosity();
  if (verbosity == Verbosity::Quiet) silence_notices();
  SweepSettings settings;
  settings.run = arguments.run;
  check_usage(command, [&] { settings.run.graph = is_on("graph", arguments.graph); });
  const auto plan = plan_of(arguments, command, settings.jobs);
  settings.halving = arguments.halving;
  check_gnuplot();
  const auto obstacle = obstacle_to_jobs(plan.base);
  if (!obstacle.empty() && plan.size() > 1) print_notice("one trial after the other: " + obstacle);

  SweepProgress progress(verbosity, plan.size());
  settings.run.on_message = [&](const std::string& line) { progress.on_message(line); };
  settings.on_event = [&](const SweepEvent& event) { progress.on_event(event); };
  settings.make_callback = [&](const Trial& trial) { return progress.callback_of(trial); };
  const auto result = carry_out_sweep(plan, arguments.out, settings);

  fs::path page;
  if (result.signal == 0) {
    page = fs::path(arguments.out) / "sweep.html";
    ReportOptions options;
    options.command = given_command(command);
    options.facts = {{"adaact", ADAACT_VERSION}, {"LibTorch", TORCH_VERSION}};
    write_sweep_page(result.trials, page, options);
  }
  if (verbosity == Verbosity::Json) print_json(json_of_sweep(arguments, result, page));
  if (result.signal != 0) {
    say(verbosity, "interrupted; all is saved, and the same command goes on");
    return 128 + result.signal;
  }
  if (verbosity == Verbosity::Normal) {
    print_trials(result.trials);
    std::printf("the page is in %s\n", page.c_str());
  }
  int exit_code = 0;
  for (const auto& each : result.trials) {
    if (each.state != TrialState::Failed) continue;
    print_message(each.trial.name + ": " + each.error);
    exit_code = 1;
  }
  return exit_code;
}

void add_list(CLI::App& command, const char* name, std::vector<double>& values, const char* text) {
  command.add_option(name, values, text)
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

/// --resume takes everything that decides what is computed from the folder.
void check_resume(const CLI::App& command) {
  const std::vector<std::string> may_change{"out",     "resume", "jobs",  "no-halving",
                                            "workers", "quiet",  "graph", "json"};
  for (const auto* option : command.get_options()) {
    const auto name = option->get_lnames().empty() ? "" : option->get_lnames().front();
    const bool changes = std::find(may_change.begin(), may_change.end(), name) == may_change.end();
    if (option->count() > 0 && changes) throw CLI::ExcludesError("--resume", "--" + name);
  }
}

}  // namespace

void add_sweep_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<SweepArguments>();
  auto& plan = arguments->plan;
  plan.optimizers = {"adaact"};
  auto* command = app.add_subcommand("sweep", "Compare learning rates of optimizers");

  command->add_option("--out", arguments->out, "Folder of the sweep; what is in it goes on")
      ->required();
  command->add_flag("--resume", arguments->resume, "Go on with the plan that the folder holds");
  command->add_option("--optimizers", plan.optimizers, "As adaact,sgd,adam")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->capture_default_str();
  add_list(*command, "--lr", plan.learning_rates, "Learning rates, as 0.01,0.03,0.1");
  command->add_option("--lr-of", arguments->rates_of, "Of one optimizer, as adam=0.001,0.003")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_list(*command, "--weight-decay", plan.weight_decays, "Weight decays; none: the default");
  add_option(*command, "--draws", plan.draws, "Random values in the ranges given; 0: the grid");
  add_off_switch(*command, "--no-halving", arguments->halving, "Train all trials to the end");
  add_option(*command, "--jobs", arguments->jobs, "Trials at once; 0: as many as there are cores")
      ->check(not_negative());

  add_model_and_data_options(*command, plan.base);
  add_step_options(*command, plan.base);
  add_schedule_options(*command, plan.base);
  add_option(*command, "--workers", arguments->run.workers, "Threads that prepare data, of each");
  add_image_work_option(*command, arguments->run.image_work);
  add_option(*command, "--graph", arguments->graph, "On a GPU: steps in CUDA graphs; on or off");
  add_output_options(*command, arguments->output);

  command->callback([arguments, command, &exit_code] {
    if (arguments->resume) check_resume(*command);
    if (!arguments->resume && command->count("--lr") + command->count("--lr-of") == 0) {
      throw CLI::RequiredError("--lr, or --resume where the folder holds a sweep,");
    }
    exit_code = run_sweep(*arguments, *command);
  });
}

}  // namespace adaact::app
