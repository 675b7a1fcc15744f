#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <adaact/train/optimizer_benchmark.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "io/json_text.h"
#include "output.h"
#include "report/format.h"
#include "run_options.h"
#include "tool_ranks.h"

namespace adaact::app {
namespace {

using nlohmann::ordered_json;

/// A rank waits for as long as the first measures by itself.
constexpr double kRankTimeoutSeconds = 600.0;

struct BenchArguments {
  BenchmarkOptions options;
  std::vector<std::string> options_of;  // as they are typed
  std::string graph = "on";
  bool json = false;
};

ordered_json json_of(const ExchangeCost& cost) {
  const auto hidden = cost.hidden_of_all();
  const auto seen = [&cost](double value) {
    return cost.is_seen_by_host ? ordered_json(value) : ordered_json();
  };
  return {{"gradient_bytes", cost.gradient_bytes},
          {"statistics_bytes", cost.statistics_bytes},
          {"messages", cost.messages},
          {"largest_message_bytes", cost.largest_message_bytes},
          {"waited_ms", seen(cost.waited_ms())},
          {"waited_for_gradients_ms", seen(cost.waited_for_gradients_ms)},
          {"waited_for_statistics_ms", seen(cost.waited_for_statistics_ms)},
          {"under_way_ms", seen(cost.under_way_ms)},
          {"hidden", seen(cost.hidden)},
          {"hidden_of_all", hidden ? seen(*hidden) : ordered_json()},
          {"alone_ms_per_step", cost.alone_ms_per_step},
          {"alone_peak_bytes", cost.alone_peak_bytes},
          {"efficiency", cost.efficiency}};
}

ordered_json json_of(const OptimizerCost& cost) {
  ordered_json json{{"optimizer", cost.optimizer},
                    {"ms_per_step", cost.ms_per_step},
                    {"lowest_ms", cost.lowest_ms},
                    {"highest_ms", cost.highest_ms},
                    {"ratio_to_sgd", cost.ratio_to_sgd},
                    {"images_per_second", cost.images_per_second},
                    {"state_bytes", cost.state_bytes},
                    {"peak_bytes", cost.peak_bytes},
                    {"peak_ratio_to_sgd", cost.peak_ratio_to_sgd},
                    {"graph", cost.graph}};
  if (cost.update) {
    json["statistics_bytes"] = cost.update->statistics_bytes;
    json["update_bytes"] = cost.update->update_bytes;
    json["statistics_and_update_floor_ms"] = cost.update->floor_ms;
    json["statistics_and_update_ms"] = cost.update->taken_ms;
    const auto fraction = cost.update->fraction_of_floor();
    json["fraction_of_floor"] = fraction ? ordered_json(*fraction) : ordered_json();
  }
  if (cost.exchange) json["exchange"] = json_of(*cost.exchange);
  return json;
}

ordered_json json_of(const GpuCost& cost) {
  ordered_json json{{"copy_bytes_per_second", cost.copy_bytes_per_second},
                    {"ms_per_batch", cost.ms_per_batch},
                    {"batch_images_per_second", cost.batch_images_per_second}};
  if (cost.forward_backward_ms) json["forward_backward_ms"] = *cost.forward_backward_ms;
  return json;
}

ordered_json json_of(const RanksCost& cost) {
  auto sums = ordered_json::array();
  for (const auto& sum : cost.sums) sums.push_back({{"bytes", sum.bytes}, {"ms", sum.ms}});
  return {{"ranks", cost.ranks}, {"images_of_first", cost.images_of_first}, {"sums", sums}};
}

void print_result_as_json(const BenchmarkResult& result) {
  ordered_json json{{"optimizers", ordered_json::array()}};
  for (const auto& cost : result.optimizers) json["optimizers"].push_back(json_of(cost));
  if (result.gpu) json["gpu"] = json_of(*result.gpu);
  if (result.ranks) json["ranks"] = json_of(*result.ranks);
  print_json(json);
}

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

void print_costs(const std::vector<OptimizerCost>& costs) {
  std::printf(
      "optimizer   ms/step  of rounds              to SGD   images/s  state MB   peak MB  "
      "to SGD\n");
  for (const auto& cost : costs) {
    std::printf("%-9s  %8.3f  %8.3f to %-9.3f  %6.3f  %9.0f  %8.2f  %8.1f  %6.3f\n",
                cost.optimizer.c_str(), cost.ms_per_step, cost.lowest_ms, cost.highest_ms,
                cost.ratio_to_sgd, cost.images_per_second, megabytes(cost.state_bytes),
                megabytes(cost.peak_bytes), cost.peak_ratio_to_sgd);
  }
}

void print_updates(const std::vector<OptimizerCost>& costs, const GpuCost& gpu) {
  std::printf(
      "\nforward and backward alone take %.3f ms; what statistics and update take beyond that,\n"
      "and their floor: the bytes that they must move, at the %.2f TB/s of a large copy:\n\n"
      "optimizer  MB to move  floor ms  taken ms  fraction of the floor\n",
      *gpu.forward_backward_ms, gpu.copy_bytes_per_second / 1e12);
  for (const auto& cost : costs) {
    if (!cost.update) continue;
    const auto& update = *cost.update;
    std::printf("%-9s  %10.1f  %8.4f  %8.4f  ", cost.optimizer.c_str(),
                megabytes(update.statistics_bytes + update.update_bytes), update.floor_ms,
                update.taken_ms);
    const auto fraction = update.fraction_of_floor();
    fraction ? std::printf("%8.2f\n", *fraction) : std::printf("%8s\n", "-");
  }
}

/// Names the optimizers without a graph: their times are the host's more than the GPU's, and not to
/// be compared with those of the others.
void print_steps_without_graph(const std::vector<OptimizerCost>& costs) {
  std::string names;
  for (const auto& cost : costs) {
    if (!cost.graph) names += (names.empty() ? "" : ", ") + cost.optimizer;
  }
  if (!names.empty()) std::printf("\nsteps without a CUDA graph: %s\n", names.c_str());
}

void print_batches(const GpuCost& gpu) {
  std::printf(
      "\nnot in the steps: a batch made on the GPU (shuffled, cropped, flipped, normalised) takes\n"
      "%.4f ms, %.0f images/s\n",
      gpu.ms_per_batch, gpu.batch_images_per_second);
}

void print_exchange(const std::vector<OptimizerCost>& costs, const RanksCost& ranks) {
  std::printf(
      "\n%lld ranks share each batch; times and memory are those of rank 0, which has %lld "
      "images.\n"
      "What is added up over the ranks in a step, how long is waited for it, how much of the\n"
      "exchange passes hide, and rank 0 by itself on as many images while the others wait:\n\n"
      "optimizer  gradients MB  statistics MB  waited ms  hidden  alone ms  alone peak MB  "
      "efficiency\n",
      static_cast<long long>(ranks.ranks), static_cast<long long>(ranks.images_of_first));
  for (const auto& cost : costs) {
    const auto& exchange = *cost.exchange;
    const auto seen = [&exchange](double value) {
      return exchange.is_seen_by_host ? fixed(value, 3) : std::string("-");
    };
    std::printf("%-9s  %12.3f  %13.3f  %9s  %6s  %8.3f  %13.1f  %10.3f\n", cost.optimizer.c_str(),
                megabytes(exchange.gradient_bytes), megabytes(exchange.statistics_bytes),
                seen(exchange.waited_ms()).c_str(), seen(exchange.hidden).c_str(),
                exchange.alone_ms_per_step, megabytes(exchange.alone_peak_bytes),
                exchange.efficiency);
  }
  std::printf("\na sum over the ranks while none of them computes:");
  for (const auto& sum : ranks.sums) {
    std::printf("%s %lld bytes %.3f ms", &sum == ranks.sums.data() ? "" : ",",
                static_cast<long long>(sum.bytes), sum.ms);
  }
  std::printf("\n");
}

void print_result(const BenchmarkResult& result) {
  print_costs(result.optimizers);
  if (result.ranks) print_exchange(result.optimizers, *result.ranks);
  if (!result.gpu) return;
  print_steps_without_graph(result.optimizers);
  if (result.gpu->forward_backward_ms) print_updates(result.optimizers, *result.gpu);
  print_batches(*result.gpu);
}

/// "adaact={"covariance": "full"}"
void add_options_of(const std::string& text, BenchmarkOptions& options) {
  const auto equals = text.find('=');
  const auto given = equals == std::string::npos ? std::string() : text.substr(equals + 1);
  const auto parsed = try_parse_json<nlohmann::json>(given);
  if (equals == 0 || !parsed.value.is_object()) {
    throw CLI::ValidationError("--options-of", "is '" + text +
                                                   "', expected an optimizer and its options, as "
                                                   "adaact={\"covariance\": \"full\"}");
  }
  options.options_of[text.substr(0, equals)] = given;
}

/// Puts the tool's ranks to work together, each with its share of the machine.
void join_ranks_of(BenchmarkOptions& options) {
  options.ranks = join_ranks(kRankTimeoutSeconds);
  if (options.ranks->size() == 1) return;
  if (!options.ranks->is_first()) silence_notices();
  const auto place = place_on_machine(*options.ranks);
  if (options.threads == 0) options.threads = place.threads();
  options.device = place.device(options.device);
  options.ranks = ranks_on_devices(options.ranks, options.device, kRankTimeoutSeconds);
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
  command
      ->add_option("--options-of", arguments->options_of,
                   "Of one optimizer, as adaact={\"covariance\":\"full\"}")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_option(*command, "--steps", options.steps, "Of each optimizer, in five rounds");
  add_option(*command, "--device", options.device, "cpu, cuda or cuda:N");
  add_option(*command, "--precision", options.precision, "fp32, tf32 or bf16");
  add_option(*command, "--memory-format", options.memory_format, "contiguous or channels-last");
  add_option(*command, "--graph", arguments->graph, "On a GPU: steps in CUDA graphs; on or off");
  add_option(*command, "--threads", options.threads, "Threads; 0: one for each core");
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  command->callback([arguments, &exit_code] {
    auto options = arguments->options;
    for (const auto& text : arguments->options_of) add_options_of(text, options);
    join_ranks_of(options);
    options.graph = is_on("graph", arguments->graph);
    use_available_device(options);
    const auto result = measure_optimizers(options);
    exit_code = 0;
    if (!options.ranks->is_first()) return;
    arguments->json ? print_result_as_json(result) : print_result(result);
  });
}

}  // namespace adaact::app
