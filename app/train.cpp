#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <adaact/report/run_history.h>
#include <adaact/train/training_run.h>

#include "commands.h"
#include "output.h"
#include "progress.h"
#include "run_files.h"
#include "run_options.h"
#include "run_summary.h"
#include "train_seeds.h"
#include "training_options.h"

namespace adaact::app {
namespace {

struct TrainArguments {
  RunConfig config;
  RunSettings settings;
  std::string out;
  OutputOptions output;
  std::vector<std::uint64_t> seeds;  // empty: that of the configuration
  std::string graph = "on";
  double lr = 0.0;
  double weight_decay = 0.0;
};

int run_training(const TrainArguments& arguments) {
  const auto& out = arguments.out;
  const auto verbosity = arguments.output.verbosity();
  auto settings = arguments.settings;
  settings.graph = is_on("graph", arguments.graph);
  settings.on_message = print_notice;
  if (verbosity == Verbosity::Quiet) silence_notices();
  auto config = arguments.config;
  use_available_device_of_run(config);
  if (!arguments.seeds.empty()) {
    return train_seeds(config, arguments.seeds, out, settings, verbosity);
  }
  TrainingRun run(config, out, settings);
  const auto progress = make_progress(verbosity);
  const auto result = run.run(*progress);
  if (verbosity == Verbosity::Json) print_json(summary_of_run(out, RunHistory::read(out)));
  switch (result.status) {
    case RunResult::Status::AlreadyFinished:
      say(verbosity, "the run in " + out + " is finished already");
      return 0;
    case RunResult::Status::Interrupted:
      say(verbosity, kInterrupted);
      return 128 + result.signal;
    case RunResult::Status::Finished:
      break;
  }
  say(verbosity, "the model is in " + model_of_run(out).string());
  return 0;
}

}  // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<TrainArguments>();
  auto& config = arguments->config;
  auto& settings = arguments->settings;
  auto* command = app.add_subcommand("train", "Train a model in a folder of its own");

  command->add_option("--out", arguments->out, "Folder of the run")->required();
  command->add_flag("--resume", settings.resume, "Go on with the run in the folder");
  add_option(*command, "--checkpoint-every", settings.checkpoint_every,
             "Steps; 0: after each epoch");

  add_model_and_data_options(*command, config);
  command->add_option("--seeds", arguments->seeds, "Several, as 0,1,2: a run for each below --out")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(not_negative());
  add_option(*command, "--workers", settings.workers, "Threads that prepare data");
  command->add_flag("--activation-variances", settings.activation_variances,
                    "Measure them in every step");
  add_option(*command, "--graph", arguments->graph, "On a GPU: steps in CUDA graphs; on or off");

  add_option(*command, "--optimizer", config.optimizer, "adaact info lists them");
  auto* lr = command->add_option("--lr", arguments->lr, "Learning rate");
  auto* decay = command->add_option("--weight-decay", arguments->weight_decay, "Weight decay");
  add_step_options(*command, config);
  add_schedule_options(*command, config);

  add_output_options(*command, arguments->output);

  command->callback([arguments, command, lr, decay, &exit_code] {
    if (command->count("--seeds") > 0 && command->count("--seed") > 0) {
      throw CLI::ExcludesError("--seeds", "--seed");
    }
    if (lr->count() > 0) put_optimizer_option(arguments->config, "lr", arguments->lr);
    if (decay->count() > 0) {
      put_optimizer_option(arguments->config, "weight_decay", arguments->weight_decay);
    }
    exit_code = run_training(*arguments);
  });
}

}  // namespace adaact::app
