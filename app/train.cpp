#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include <adaact/train/training_run.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "run_options.h"

namespace adaact::app {
namespace {

using nlohmann::json;

struct TrainArguments {
  RunConfig config;
  RunSettings settings;
  std::string out;
  double lr = 0.0;
  double weight_decay = 0.0;
};

void set_optimizer_option(RunConfig& config, const char* name, double value) {
  TORCH_CHECK(std::isfinite(value), name, " is ", value, ", expected a finite number");
  auto options = json::parse(config.optimizer_options, nullptr, /*allow_exceptions=*/false);
  TORCH_CHECK(options.is_object(), "--optimizer-options is '", config.optimizer_options,
              "', expected a JSON object");
  options[name] = value;
  config.optimizer_options = options.dump();
}

/// One line an epoch.
class EpochLines : public TrainingCallback {
 public:
  void on_start(const Trainer& trainer) override {
    if (trainer.state().step > 0) {
      std::printf("resumed after step %ld of %ld\n", trainer.state().step, trainer.steps());
    }
    std::printf(
        "epoch  train loss  train top-1  test loss  test top-1  test top-5  seconds  images/s\n");
    std::fflush(stdout);
  }
  void on_epoch(const Trainer& /*trainer*/, const EpochMetrics& metrics) override {
    std::printf("%5ld  %10.4f  %9.2f %%  %9.4f  %8.2f %%  %8.2f %%  %7.1f  %8.0f\n",
                metrics.epoch + 1, metrics.train_loss, 100.0 * metrics.train_top1,
                metrics.test.loss, 100.0 * metrics.test.top1, 100.0 * metrics.test.top5,
                metrics.seconds, metrics.images_per_second);
    std::fflush(stdout);
  }
};

int run_training(const TrainArguments& arguments) {
  TrainingRun run(arguments.config, arguments.out, arguments.settings);
  EpochLines lines;
  const auto result = run.run(lines);
  switch (result.status) {
    case RunResult::Status::AlreadyFinished:
      std::printf("the run in %s is finished already\n", arguments.out.c_str());
      return 0;
    case RunResult::Status::Interrupted:
      std::printf("interrupted; all is saved, and the same command with --resume goes on\n");
      return 128 + result.signal;
    case RunResult::Status::Finished:
      break;
  }
  std::printf("the model is in %s/model.safetensors\n", arguments.out.c_str());
  return 0;
}

}  // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<TrainArguments>();
  auto& config = arguments->config;
  auto& settings = arguments->settings;
  settings.on_message = print_message;
  auto* command = app.add_subcommand("train", "Train a model in a folder of its own");

  command->add_option("--out", arguments->out, "Folder of the run")->required();
  command->add_flag("--resume", settings.resume,
                    "Go on with the run in the folder, if there is one");
  add_option(*command, "--checkpoint-every", settings.checkpoint_every,
             "Steps; 0: after each epoch");

  add_model_and_data_options(*command, config);
  command->add_option("--weights", config.weights, "safetensors to begin with");
  add_option(*command, "--drop-path", config.drop_path, "Rate of dropped branches");
  add_option(*command, "--limit-train", config.limit_train, "Train on so many images; 0: all");
  command->add_flag("!--no-augment", config.augment, "Neither crop nor flip");
  add_option(*command, "--workers", settings.workers, "Threads that prepare data");

  add_option(*command, "--optimizer", config.optimizer, "How to train");
  auto* lr = command->add_option("--lr", arguments->lr, "Learning rate");
  auto* decay = command->add_option("--weight-decay", arguments->weight_decay, "Weight decay");
  add_option(*command, "--optimizer-options", config.optimizer_options, "Further ones, as JSON");
  command->add_flag("!--no-vector-decay", config.decay_vectors,
                    "No weight decay for biases, normalisation and tokens");
  add_option(*command, "--schedule", config.schedule,
             "constant, step, multistep, cosine, cosine-per-step");
  command->add_option("--milestones", config.milestones, "Epochs, for step and multistep")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_option(*command, "--final-lr-factor", config.final_lr_factor,
             "What cosine leaves of the learning rate");
  add_option(*command, "--warmup-epochs", config.warmup_epochs,
             "Epochs of linear warm-up from a tenth");

  add_option(*command, "--epochs", config.epochs, "Passes over the data");
  add_option(*command, "--accumulation", config.accumulation, "Batches a step");
  command->add_option("--clip-norm", config.clip_norm, "Largest norm of the gradient");
  add_option(*command, "--label-smoothing", config.label_smoothing,
             "Share of a label that is spread over all classes");

  command->callback([arguments, lr, decay, &exit_code] {
    if (lr->count() > 0) set_optimizer_option(arguments->config, "lr", arguments->lr);
    if (decay->count() > 0) {
      set_optimizer_option(arguments->config, "weight_decay", arguments->weight_decay);
    }
    exit_code = run_training(*arguments);
  });
}

}  // namespace adaact::app
