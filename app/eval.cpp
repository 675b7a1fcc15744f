#include <cstdio>
#include <memory>

#include <adaact/train/evaluate_weights.h>

#include "commands.h"
#include "run_options.h"

namespace adaact::app {

void add_eval_command(CLI::App& app, int& exit_code) {
  auto config = std::make_shared<RunConfig>();
  auto* command = app.add_subcommand("eval", "Evaluate weights on test data");
  command->add_option("--weights", config->weights, "safetensors with the model's names")
      ->required();
  add_model_and_data_options(*command, *config);
  command->callback([config, &exit_code] {
    const auto result = evaluate_weights(*config, print_message);
    std::printf("images %ld  loss %.4f  top-1 %.2f %%  top-5 %.2f %%\n", result.images, result.loss,
                100.0 * result.top1, 100.0 * result.top5);
    exit_code = 0;
  });
}

}  // namespace adaact::app
