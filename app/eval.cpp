#include <cstdio>
#include <memory>

#include <adaact/io/safetensors.h>
#include <adaact/train/evaluate_weights.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "output.h"
#include "run_files.h"
#include "run_options.h"

namespace adaact::app {
namespace {

struct EvalArguments {
  RunConfig config;
  std::string run;
  OutputOptions output;
};

void print(const Evaluation& result, Verbosity verbosity) {
  if (verbosity == Verbosity::Quiet) return;
  if (verbosity == Verbosity::Json) {
    const nlohmann::json object{{"images", result.images},
                                {"loss", result.loss},
                                {"top1", result.top1},
                                {"top5", result.top5}};
    print_json(object);
  } else {
    std::printf("images %ld  loss %.4f  top-1 %.2f %%  top-5 %.2f %%\n", result.images, result.loss,
                100.0 * result.top1, 100.0 * result.top5);
  }
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
                            "--resize-size", "--seed", "--validation"}) {
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

}  // namespace

void add_eval_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<EvalArguments>();
  auto* command = app.add_subcommand("eval", "Evaluate weights on test data");
  command->add_option("--run", arguments->run, "A finished run: its weights, model and data");
  command->add_option("--weights", arguments->config.weights, "safetensors with the model's names");
  add_model_and_data_options(*command, arguments->config);
  add_output_options(*command, arguments->output);
  command->callback([arguments, command, &exit_code] {
    auto& config = arguments->config;
    if (!arguments->run.empty()) {
      refuse_beside_run(*command);
      take_from_run(config, arguments->run);
    }
    if (config.weights.empty()) throw CLI::RequiredError("--run or --weights");
    if (arguments->run.empty()) take_from_weights(config, *command);
    if (arguments->output.quiet) silence_notices();
    use_available_device_of_run(config);
    print(evaluate_weights(config, print_notice), arguments->output.verbosity());
    exit_code = 0;
  });
}

}  // namespace adaact::app
