#include <cstdio>
#include <memory>
#include <string>

#include <adaact/train/training_run.h>
#include <nlohmann/json.hpp>

#include "commands.h"

namespace adaact::app {
namespace {

using nlohmann::json;

struct TrainArguments {
  RunConfig config;
  RunSettings settings;
  std::string out;
  double lr = 0.0;
  double weight_decay = 0.0;
  bool no_batchnorm = false;
  bool no_augment = false;
  bool no_vector_decay = false;
};

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
  settings.on_message = [](const std::string& line) {
    std::fprintf(stderr, "adaact: %s\n", line.c_str());
  };
  auto* command = app.add_subcommand("train", "Train a model in a folder of its own");
  const auto option = [&](const std::string& name, auto& value, const std::string& text) {
    return command->add_option(name, value, text)->capture_default_str();
  };

  command->add_option("--out", arguments->out, "Folder of the run")->required();
  command->add_flag("--resume", settings.resume,
                    "Go on with the run in the folder, if there is one");
  option("--checkpoint-every", settings.checkpoint_every, "Steps; 0: after each epoch");

  option("--model", config.model, "What to train");
  command->add_flag("--no-batchnorm", arguments->no_batchnorm, "Without batch normalisation");
  option("--drop-path", config.drop_path, "Rate of dropped branches");
  command->add_option("--weights", config.weights, "safetensors to begin with");

  option("--dataset", config.dataset, "What to train on");
  command->add_option("--data-dir", config.data_dir, "Where the data are");
  option("--image-size", config.image_size, "Side of the images; 0: the data set's own");
  option("--resize-size", config.resize_size, "Of an image folder, before the centre crop");
  option("--limit-train", config.limit_train, "Train on so many images; 0: all");
  option("--limit-test", config.limit_test, "Test on so many images; 0: all");
  command->add_flag("--no-augment", arguments->no_augment, "Neither crop nor flip");
  command->add_flag("--skip-bad-images", config.skip_bad_images, "Leave out what is not decodable");

  option("--optimizer", config.optimizer, "How to train");
  auto* lr = command->add_option("--lr", arguments->lr, "Learning rate");
  auto* decay = command->add_option("--weight-decay", arguments->weight_decay, "Weight decay");
  option("--optimizer-options", config.optimizer_options, "Further options, as JSON");
  command->add_flag("--no-vector-decay", arguments->no_vector_decay,
                    "No weight decay for biases, normalisation and tokens");
  option("--schedule", config.schedule, "constant, step, multistep, cosine, cosine-per-step");
  command->add_option("--milestones", config.milestones, "Epochs, for step and multistep")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  option("--final-lr-factor", config.final_lr_factor, "What cosine leaves of the learning rate");
  option("--warmup-epochs", config.warmup_epochs, "Epochs of linear warm-up");

  option("--epochs", config.epochs, "Passes over the data");
  option("--batch-size", config.batch_size, "Images a batch");
  option("--accumulation", config.accumulation, "Batches a step");
  command->add_option("--clip-norm", config.clip_norm, "Largest norm of the gradient");
  option("--label-smoothing", config.label_smoothing, "Share of the label spread over all classes");
  option("--seed", config.seed, "Of everything random");

  option("--device", config.device, "cpu, cuda or cuda:N");
  option("--precision", config.precision, "fp32 or bf16");
  option("--threads", config.threads, "Threads that compute; 0: one for each core");
  option("--workers", settings.workers, "Threads that prepare data");

  command->callback([arguments, lr, decay, &exit_code] {
    auto& chosen = arguments->config;
    auto options = json::parse(chosen.optimizer_options, nullptr, /*allow_exceptions=*/false);
    TORCH_CHECK(options.is_object(), "--optimizer-options is '", chosen.optimizer_options,
                "', expected a JSON object");
    if (lr->count() > 0) options["lr"] = arguments->lr;
    if (decay->count() > 0) options["weight_decay"] = arguments->weight_decay;
    chosen.optimizer_options = options.dump();
    chosen.batchnorm = !arguments->no_batchnorm;
    chosen.augment = !arguments->no_augment;
    chosen.decay_vectors = !arguments->no_vector_decay;
    exit_code = run_training(*arguments);
  });
}

}  // namespace adaact::app
