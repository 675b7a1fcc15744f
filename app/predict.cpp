#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <adaact/train/classifier.h>
#include <adaact/train/run_config.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "io/error_text.h"
#include "io/printable.h"
#include "output.h"
#include "run_files.h"
#include "run_options.h"

namespace adaact::app {
namespace {

using nlohmann::ordered_json;

struct PredictArguments {
  std::string run;
  std::vector<std::string> images;
  std::string device = "cpu";
  bool best = false;
  bool json = false;
};

using Classes = std::vector<ClassProbability>;

ordered_json to_json(const std::string& image, const Classes& classes) {
  auto list = ordered_json::array();
  for (const auto& each : classes) {
    list.push_back({{"class", each.name}, {"probability", each.probability}});
  }
  return {{"image", image}, {"classes", list}};
}

void print(const std::string& image, const Classes& classes) {
  std::printf("%s\n", printable(image).c_str());
  for (const auto& each : classes) {
    std::printf("  %6.2f %%  %s\n", 100.0 * each.probability, printable(each.name).c_str());
  }
}

int predict(const PredictArguments& arguments) {
  const auto weights =
      arguments.best ? best_weights_of_run(arguments.run) : weights_of_run(arguments.run);
  const auto device = device_to_use(arguments.device);
  check_device(device);
  const Classifier classifier(weights, torch::Device(device));
  auto results = ordered_json::array();
  int exit_code = 0;
  for (const auto& image : arguments.images) {
    try {
      const auto classes = classifier.classify(image);
      arguments.json ? results.push_back(to_json(image, classes)) : print(image, classes);
    } catch (const std::exception& error) {  // one bad picture does not stop the others
      const auto problem = error_text_within_line(error);
      print_message(problem);
      if (arguments.json) results.push_back({{"image", image}, {"error", problem}});
      exit_code = 1;
    }
  }
  if (arguments.json) print_json(results);
  return exit_code;
}

}  // namespace

void add_predict_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<PredictArguments>();
  auto* command = app.add_subcommand("predict", "Name what is in pictures");
  command->add_option("--run", arguments->run, "Folder of a run, finished or not")->required();
  command->add_flag("--best", arguments->best, "The best epoch's weights (train --save-best)");
  command->add_option("images", arguments->images, "JPEG, PNG or WebP files")
      ->required()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_option(*command, "--device", arguments->device, "cpu, cuda or cuda:N");
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  command->callback([arguments, &exit_code] { exit_code = predict(*arguments); });
}

}  // namespace adaact::app
