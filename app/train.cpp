#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <adaact/optim/non_finite.h>
#include <adaact/ranks/mpi.h>
#include <adaact/report/run_history.h>
#include <adaact/train/training_run.h>

#include "commands.h"
#include "going_on.h"
#include "output.h"
#include "progress.h"
#include "run_files.h"
#include "run_options.h"
#include "run_summary.h"
#include "smaller_rate.h"
#include "tool_ranks.h"
#include "train/run/rank_agreement.h"
#include "train/run/run_settings.h"
#include "train_block.h"
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
  double rank_timeout = MpiOptions().timeout.count();  // seconds
};

void take_over_settings(const RunSettings& settings, TrainArguments& arguments) {
  arguments.settings = settings;
  arguments.graph = settings.graph ? "on" : "off";
}

/// Takes from the folder all that was not typed; false where there is nothing to go on with.
bool take_over(TrainArguments& arguments, CLI::App& command) {
  const bool seeds_were_typed = !arguments.seeds.empty();
  auto begun = begun_run_in(arguments.out);
  if (seeds_were_typed && begun && begun->seeds.empty()) begun.reset();  // seeds lie below a folder
  if (!begun) {
    check_it_may_begin(arguments.out, command);
    return false;
  }
  take_over_settings(RunSettings::read(begun->config_file), arguments);
  go_on_with(arguments.config, *begun, command);
  if (!seeds_were_typed) arguments.seeds = begun->seeds;
  return true;
}

int run_alone(RunConfig config, const std::string& out, const RunSettings& settings,
              Verbosity verbosity) {
  TrainingRun run(config, out, settings);
  config.resolve();
  const auto progress = make_progress(verbosity, [&](const Trainer& trainer) {
    std::printf("%s", train_block(config, out, {}, trainer).c_str());
  });
  RunResult result;
  try {
    result = run.run(*progress);
  } catch (const NonFiniteError& error) {
    throw NonFiniteError(error.what() + advice_after_divergence(config));
  }
  if (verbosity == Verbosity::Json) print_json(summary_of_run(out, RunHistory::read(out)));
  if (!result.ending.empty()) say(verbosity, "ended early: " + result.ending);
  switch (result.status) {
    case RunResult::Status::AlreadyFinished:
      say(verbosity, "the run in " + out + " is finished already; --epochs with more than its " +
                         std::to_string(config.epochs) + " goes on with it");
      return 0;
    case RunResult::Status::Interrupted:
      say(verbosity, interrupted_text(out));
      return 128 + result.signal;
    case RunResult::Status::Finished:
      break;
  }
  say(verbosity, "the model is in " + model_of_run(out).string());
  return 0;
}

/// Of the ranks the first alone gives notice of anything.
std::shared_ptr<Communicator> join_ranks_of(const TrainArguments& arguments) {
  constexpr double kLongestWait = 1e6;  // days, and far from what a clock cannot count
  TORCH_CHECK_VALUE(arguments.rank_timeout > 0.0 && arguments.rank_timeout <= kLongestWait,
                    "rank_timeout is ", arguments.rank_timeout, ", expected > 0 and at most ",
                    kLongestWait);
  auto ranks = join_ranks(arguments.rank_timeout);
  if (!ranks->is_first()) silence_notices();
  return ranks;
}

/// take_over() by the first rank, which alone need see the folder: what it has found there the others go on with.
void take_over_together(TrainArguments& arguments, CLI::App& command, Communicator& ranks) {
  check_same_run(arguments.config, ranks);  // as they were typed
  const bool found = ranks.is_first() && take_over(arguments, command);
  if (ranks.size() == 1) return;
  const auto config = ranks.gather(found ? arguments.config.to_json() : "").front();
  const auto settings = ranks.gather(settings_text(arguments.settings)).front();
  if (ranks.is_first() || config.empty()) return;
  const std::string source = "what rank 0 sent";
  arguments.config = RunConfig::from_json(config, source);
  take_over_settings(RunSettings::from_json(settings, source), arguments);
  const auto typed = command.get_options([](const auto* option) { return option->count() > 0; });
  for (auto* option : typed) option->run_callback();  // such as where a rank's own data lie
}

/// Puts the ranks to work together, each with its share of the machine.
void work_together(TrainArguments& arguments, const CLI::App& command,
                   const std::shared_ptr<Communicator>& ranks) {
  if (ranks->size() == 1) return;
  TORCH_CHECK_VALUE(arguments.seeds.empty(), "seeds are given, but there are ", ranks->size(),
                    " ranks, expected one process: several seeds are trained side by side in it");
  if (!ranks->is_first()) arguments.output = {/*quiet=*/true, /*json=*/false};
  auto& config = arguments.config;
  const auto place = place_on_machine(*ranks);
  // The threads that a run was begun with were one rank's, of as many ranks as there were then.
  if (command.count("--threads") == 0) config.threads = std::min(config.threads, place.threads());
  if (command.count("--device") == 0 && config.device != "cpu") config.device = "cuda";
  if (config.threads == 0) config.threads = place.threads();
  config.device = place.device(config.device);
  arguments.settings.ranks = ranks_on_devices(ranks, config.device, arguments.rank_timeout);
}

int run_training(TrainArguments& arguments, CLI::App& command) {
  const auto ranks = join_ranks_of(arguments);
  check_same_on_all_ranks(*ranks, "its command",
                          arguments.settings.resume ? "--resume" : "no --resume");
  if (arguments.settings.resume) take_over_together(arguments, command, *ranks);
  auto& settings = arguments.settings;
  settings.graph = is_on("graph", arguments.graph);
  settings.on_message = print_notice;
  use_available_device_of_run(arguments.config);
  work_together(arguments, command, ranks);
  const auto verbosity = arguments.output.verbosity();
  if (verbosity == Verbosity::Quiet) silence_notices();
  if (arguments.seeds.empty()) {
    return run_alone(arguments.config, arguments.out, settings, verbosity);
  }
  return train_seeds(arguments.config, arguments.seeds, arguments.out, settings, verbosity);
}

}  // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<TrainArguments>();
  auto& config = arguments->config;
  auto& settings = arguments->settings;
  auto* command = app.add_subcommand("train", "Train a model in a folder of its own");

  command->add_option("--out", arguments->out, "Folder of the run")->required();
  command->add_flag("--resume", settings.resume, "Go on with the run in the folder, as it is");
  add_option(*command, "--checkpoint-every", settings.checkpoint_every,
             "Steps; 0: after each epoch");
  add_option(*command, "--keep-checkpoints", settings.keep_checkpoints,
             "How many a finished run keeps");
  command->add_flag("--save-best", settings.save_best, "Keep the best epoch: best.safetensors");

  add_model_and_data_options(*command, config);
  command->add_option("--seeds", arguments->seeds, "Several, as 0,1,2: a run for each below --out")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(not_negative());
  add_option(*command, "--rank-timeout", arguments->rank_timeout,
             "Under mpirun: seconds to wait for a rank");
  add_option(*command, "--workers", settings.workers, "Threads that prepare data");
  add_image_work_option(*command, settings.image_work);
  command->add_flag("--activation-variances", settings.activation_variances,
                    "Measure them in every step");
  add_option(*command, "--graph", arguments->graph, "On a GPU: steps in CUDA graphs; on or off");

  add_option(*command, "--optimizer", config.optimizer, "adaact info lists them");
  add_step_options(*command, config);
  add_optimizer_number(*command, "--lr", "lr", config, "Learning rate");
  add_optimizer_number(*command, "--weight-decay", "weight_decay", config, "Weight decay");
  add_schedule_options(*command, config);
  add_option(*command, "--patience", config.patience,
             "End after so many epochs without a better test top-1; 0: never");

  add_output_options(*command, arguments->output);

  command->callback([arguments, command, &exit_code] {
    if (command->count("--seeds") > 0 && command->count("--seed") > 0) {
      throw CLI::ExcludesError("--seeds", "--seed");
    }
    exit_code = run_training(*arguments, *command);
  });
}

}  // namespace adaact::app
