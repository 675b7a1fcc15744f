#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <adaact/models/weights.h>
#include <adaact/train/lr_range_test.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "given_command.h"
#include "output.h"
#include "report/format.h"
#include "report/gnuplot.h"
#include "run_options.h"
#include "sweep/lr_range_page.h"
#include "train/run/interrupt.h"
#include "train/run/run_parts.h"
#include "training_options.h"

namespace adaact::app {
namespace {

using nlohmann::ordered_json;

struct FindLrArguments {
  RunConfig config;
  LrRangeOptions range;
  double weight_decay = 0.0;
  std::int64_t workers = 1;
  std::string page;
  OutputOptions output;
};

LrRangeResult find_lr(RunConfig config, const FindLrArguments& arguments) {
  const InterruptGuard interrupts;
  config.limit_test = 1;  // nothing is evaluated
  set_up_libtorch(config);
  RunParts parts(config, arguments.workers);
  if (!config.weights.empty()) {
    LoadOptions options;
    options.replace_head = true;
    load_weights(*parts.model, config.weights, options);
  }
  auto options = step_options(config);
  options.should_stop = [] { return InterruptGuard::received() != 0; };
  return lr_range_test(*parts.model, *parts.optimizer, parts.train_loader, arguments.range,
                       std::move(options));
}

ordered_json json_of_range(const RunConfig& config, const LrRangeResult& found) {
  ordered_json object{{"optimizer", config.optimizer}, {"first_loss", found.first_loss}};
  const auto put = [&](const char* name, const std::optional<double>& value) {
    object[name] = value ? ordered_json(*value) : ordered_json();
  };
  put("steepest_lr", found.steepest);
  put("tenth_of_explosion_lr", found.tenth_of_explosion());
  put("exploded_at_lr", found.exploded_at);
  object["interrupted"] = found.interrupted;
  object["points"] = ordered_json::array();
  for (const auto& point : found.points) {
    object["points"].push_back(
        {{"lr", point.learning_rate}, {"loss", point.loss}, {"smoothed", point.smoothed}});
  }
  return object;
}

/// An error names the option, which has the name of the field. As these fields are no names of options elsewhere, the
/// general rule does not know them.
void check_range(const LrRangeOptions& range) {
  try {
    range.check();
  } catch (const std::exception& error) {
    throw CLI::ValidationError("--" + error_text(error));
  }
}

/// Some of the points, evenly spread, and what follows from all.
void print_range(const LrRangeResult& found) {
  constexpr std::size_t kMostLines = 15;
  std::printf("%12s  %10s\n", "lr", "loss");
  const auto count = found.points.size();
  const auto lines = std::min(count, kMostLines);
  for (std::size_t line = 0; line < lines; ++line) {
    const auto& point = found.points[lines == 1 ? 0 : line * (count - 1) / (lines - 1)];
    std::printf("%12s  %10s\n", rounded(point.learning_rate).c_str(),
                decimal(point.smoothed).c_str());
  }
  if (found.exploded_at) {
    std::printf("the loss explodes at %s\n", rounded(*found.exploded_at).c_str());
  }
  const auto suggest = [](const std::optional<double>& rate, const char* why) {
    if (rate) std::printf("suggestion: --lr %.2g, %s\n", *rate, why);
  };
  suggest(found.steepest, "where the loss falls fastest");
  suggest(found.tenth_of_explosion(), "a tenth of where it explodes");
  if (!found.steepest && !found.exploded_at) {
    std::printf("the loss neither fell nor exploded: try greater rates (--to) or more --steps\n");
  }
}

int run_find_lr(const FindLrArguments& arguments, const CLI::App& command) {
  const auto verbosity = arguments.output.verbosity();
  if (verbosity == Verbosity::Quiet) silence_notices();
  auto config = arguments.config;
  use_available_device_of_run(config);
  check_usage(command, [&] {
    if (command.count("--weight-decay") > 0) {
      put_optimizer_option(config, "weight_decay", arguments.weight_decay);
    }
    config.resolve();
  });
  check_range(arguments.range);
  if (!arguments.page.empty()) check_gnuplot();
  const auto found = find_lr(config, arguments);
  if (verbosity == Verbosity::Json) print_json(json_of_range(config, found));
  if (found.interrupted) {
    say(verbosity, "interrupted");
    return 128 + InterruptGuard::received();
  }
  if (!arguments.page.empty()) {
    ReportOptions options;
    options.command = given_command(command);
    options.facts = {{"adaact", ADAACT_VERSION}, {"LibTorch", TORCH_VERSION}};
    write_lr_range_page(config, found, arguments.page, options);
  }
  if (verbosity == Verbosity::Normal) {
    print_range(found);
    if (!arguments.page.empty()) std::printf("the page is in %s\n", arguments.page.c_str());
  }
  return 0;
}

}  // namespace

void add_find_lr_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<FindLrArguments>();
  auto& config = arguments->config;
  auto& range = arguments->range;
  auto* command = app.add_subcommand("find-lr", "Suggest learning rates by a range test");

  add_option(*command, "--from", range.from, "The first learning rate");
  add_option(*command, "--to", range.to, "The last one");
  add_option(*command, "--steps", range.steps, "Steps between the two");
  command->add_option("--out", arguments->page, "A page with the curve");
  add_option(*command, "--optimizer", config.optimizer, "adaact info lists them");
  command->add_option("--weight-decay", arguments->weight_decay, "Weight decay");
  add_model_and_data_options(*command, config);
  add_step_options(*command, config);
  add_option(*command, "--workers", arguments->workers, "Threads that prepare data");
  add_output_options(*command, arguments->output);

  command->callback(
      [arguments, command, &exit_code] { exit_code = run_find_lr(*arguments, *command); });
}

}  // namespace adaact::app
