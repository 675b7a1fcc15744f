#include <cstdio>
#include <memory>
#include <string>

#include <adaact/train/optimizer_benchmark.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "output.h"
#include "run_options.h"

namespace adaact::app {
namespace {

using nlohmann::ordered_json;

struct BenchArguments {
  BenchmarkOptions options;
  bool json = false;
};

void print_list(const std::vector<OptimizerCost>& costs) {
  auto list = ordered_json::array();
  for (const auto& cost : costs) {
    list.push_back({{"optimizer", cost.optimizer},
                    {"ms_per_step", cost.ms_per_step},
                    {"lowest_ms", cost.lowest_ms},
                    {"highest_ms", cost.highest_ms},
                    {"ratio_to_sgd", cost.ratio_to_sgd},
                    {"state_bytes", cost.state_bytes},
                    {"peak_bytes", cost.peak_bytes}});
  }
  print_json(list);
}

void print_table(const std::vector<OptimizerCost>& costs) {
  const auto megabytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  std::printf("optimizer  ms/step  of rounds            to SGD  state MB  peak MB\n");
  for (const auto& cost : costs) {
    std::printf("%-9s  %7.2f  %7.2f to %-8.2f  %6.2f  %8.2f  %7.1f\n", cost.optimizer.c_str(),
                cost.ms_per_step, cost.lowest_ms, cost.highest_ms, cost.ratio_to_sgd,
                megabytes(cost.state_bytes), megabytes(cost.peak_bytes));
  }
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<BenchArguments>();
  auto& options = arguments->options;
  auto* command = app.add_subcommand("bench", "Measure what optimizers cost");
  add_option(*command, "--model", options.model, "adaact info lists them");
  add_option(*command, "--batch-size", options.batch_size, "Images a batch");
  add_option(*command, "--optimizers", options.optimizers, "Names with commas between them")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_option(*command, "--steps", options.steps, "Of each optimizer, in five rounds");
  add_option(*command, "--device", options.device, "cpu, cuda or cuda:N");
  add_option(*command, "--precision", options.precision, "fp32 or bf16");
  add_option(*command, "--threads", options.threads, "Threads; 0: one for each core");
  command->add_flag("--json", arguments->json, "Print the table as JSON");
  command->callback([arguments, &exit_code] {
    const auto costs = measure_optimizers(arguments->options);
    arguments->json ? print_list(costs) : print_table(costs);
    exit_code = 0;
  });
}

}  // namespace adaact::app
