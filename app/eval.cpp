#include <cstdio>
#include <memory>
#include <string>

#include <adaact/data/datasets.h>
#include <adaact/data/loader.h>
#include <adaact/models/registry.h>
#include <adaact/models/weights.h>
#include <adaact/train/evaluate.h>

#include "commands.h"

namespace adaact::app {
namespace {

struct EvalArguments {
  std::string weights;
  std::string model = "lenet5";
  std::string dataset = "fashion-mnist";
  DatasetOptions data;
  std::string data_dir;
  std::int64_t batch_size = 128;
  std::int64_t limit = 0;
  std::string device = "cpu";
  bool no_batchnorm = false;
};

int run_evaluation(const EvalArguments& arguments) {
  auto data_options = arguments.data;
  data_options.data_dir = arguments.data_dir;
  data_options.split = Split::Test;
  data_options.limit = arguments.limit;
  const auto data = open_dataset(arguments.dataset, data_options);
  auto model_options = default_model_options(arguments.model);
  model_options.classes = data->classes();
  model_options.channels = data->shape().channels;
  model_options.image_size = data->shape().height;
  model_options.batchnorm = !arguments.no_batchnorm;
  const auto model = make_model(arguments.model, model_options);
  load_weights(*model, arguments.weights);
  const torch::Device device(arguments.device);
  model->to(device);
  auto options = LoaderOptions::evaluation();
  options.batch_size = arguments.batch_size;
  Loader loader(data, options);
  const auto result = evaluate(*model, loader, device);
  std::printf("images %ld  loss %.4f  top-1 %.2f %%  top-5 %.2f %%\n", result.images, result.loss,
              100.0 * result.top1, 100.0 * result.top5);
  return 0;
}

}  // namespace

void add_eval_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<EvalArguments>();
  auto* command = app.add_subcommand("eval", "Evaluate weights on a test set");
  command->add_option("--weights", arguments->weights, "safetensors with the model's names")
      ->required();
  command->add_option("--model", arguments->model, "")->capture_default_str();
  command->add_option("--dataset", arguments->dataset, "")->capture_default_str();
  command->add_option("--data-dir", arguments->data_dir, "Where the data are");
  command->add_option("--batch-size", arguments->batch_size, "")->capture_default_str();
  command->add_option("--limit-test", arguments->limit, "Test on so many images");
  command->add_option("--device", arguments->device, "")->capture_default_str();
  command->add_flag("--no-batchnorm", arguments->no_batchnorm, "Without batch normalisation");
  command->add_flag("--skip-bad-images", arguments->data.skip_bad_images, "");
  command->callback([arguments, &exit_code] { exit_code = run_evaluation(*arguments); });
}

}  // namespace adaact::app
