#include <adaact/train/optimizer_benchmark.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <adaact/models/registry.h>
#include <adaact/train/run_config.h>
#include <torch/torch.h>

#include "train/bench/batch_benchmark.h"
#include "train/bench/benchmark_workload.h"
#include "train/bench/measured_exchange.h"
#include "train/bench/memory_traffic.h"
#include "train/bench/timed_work.h"
#include "train/graph/own_stream.h"
#include "train/run/rank_agreement.h"
#include "train/run/run_parts.h"

namespace adaact {
namespace {

constexpr std::int64_t kRounds = 5;

/// Checks through the configuration of a run what the two have in common.
RunConfig checked_config(const BenchmarkOptions& options) {
  RunConfig config;
  config.model = options.model;
  config.batch_size = options.batch_size;
  config.device = options.device;
  config.precision = options.precision;
  config.memory_format = options.memory_format;
  config.threads = options.threads;
  for (const auto& optimizer : options.optimizers) {
    const auto times = std::count(options.optimizers.begin(), options.optimizers.end(), optimizer);
    TORCH_CHECK_VALUE(times == 1, "optimizers name ", optimizer, " ", times,
                      " times, expected once");
    config.optimizer = optimizer;
    config.optimizer_options = optimizer_options_of(options, optimizer);
    config.resolve();
  }
  for (const auto& [optimizer, given] : options.options_of) {
    const auto& names = options.optimizers;
    TORCH_CHECK_VALUE(std::find(names.begin(), names.end(), optimizer) != names.end(),
                      "options_of is for '", optimizer,
                      "', which is not among the optimizers that are measured");
  }
  TORCH_CHECK_VALUE(!options.optimizers.empty(),
                    "optimizers are empty, expected names such as adaact");
  TORCH_CHECK_VALUE(options.steps >= kRounds, "steps is ", options.steps, ", expected ≥ ", kRounds);
  TORCH_CHECK_VALUE(options.batch_size >= options.ranks->size(), "batch_size is ",
                    options.batch_size, ", expected ≥ ", options.ranks->size(),
                    ", an image for each rank");
  return config;
}

void check_same_benchmark(const BenchmarkOptions& options, const RunConfig& config) {
  check_same_run(config, *options.ranks);
  auto text = std::to_string(options.steps) + " steps";
  for (const auto& name : options.optimizers) {
    text += ", " + name;
    const auto given = optimizer_options_of(options, name);
    if (given != "{}") text += " " + given;
  }
  check_same_on_all_ranks(*options.ranks, "its steps and optimizers", text);
}

/// The options of a rank by itself, with the images that it has of a batch of all.
BenchmarkOptions options_alone(BenchmarkOptions options) {
  options.batch_size =
      images_of_rank(options.batch_size, options.ranks->rank(), options.ranks->size());
  options.ranks = single_process();
  return options;
}

double images_per_second(const BenchmarkOptions& options, double milliseconds) {
  return 1e3 * static_cast<double>(options.batch_size) / milliseconds;
}

OptimizerCost cost_of(const BenchmarkWorkload& workload, const std::string& optimizer,
                      const BenchmarkOptions& options) {
  OptimizerCost cost;
  cost.optimizer = optimizer;
  cost.graph = workload.is_captured();
  const auto& rounds = workload.rounds();
  for (const auto each : rounds) cost.ms_per_step += each / static_cast<double>(rounds.size());
  // Without a graph a step of FOOF or KFAC may be a hundred times another one.
  if (cost.graph) cost.ms_per_step = median(rounds);
  cost.lowest_ms = *std::min_element(rounds.begin(), rounds.end());
  cost.highest_ms = *std::max_element(rounds.begin(), rounds.end());
  cost.images_per_second = images_per_second(options, cost.ms_per_step);
  cost.state_bytes = workload.state_bytes();
  cost.peak_bytes = workload.peak_bytes();
  return cost;
}

/// Adds what rank 0 has found by itself. It tells the others, where `alone` is null.
void compare_with_alone(OptimizerCost& cost, const BenchmarkWorkload* alone,
                        const BenchmarkOptions& options) {
  const auto found = torch::zeros({2}, torch::kFloat64);
  auto* numbers = found.data_ptr<double>();
  if (alone != nullptr) {
    const auto by_itself = cost_of(*alone, cost.optimizer, options_alone(options));
    numbers[0] = by_itself.ms_per_step;
    numbers[1] = static_cast<double>(by_itself.peak_bytes);
  }
  options.ranks->broadcast({found}, /*root=*/0);
  auto& exchange = *cost.exchange;
  exchange.alone_ms_per_step = numbers[0];
  exchange.alone_peak_bytes = static_cast<std::int64_t>(numbers[1]);
  const auto ranks = options.ranks->size();
  const auto per_image =
      numbers[0] / static_cast<double>(images_of_rank(options.batch_size, /*rank=*/0, ranks));
  const auto of_all_per_image = cost.ms_per_step / static_cast<double>(options.batch_size);
  exchange.efficiency = per_image / (static_cast<double>(ranks) * of_all_per_image);
}

void compare_with_sgd(std::vector<OptimizerCost>& costs) {
  const auto sgd = *std::find_if(costs.begin(), costs.end(),
                                 [](const auto& cost) { return cost.optimizer == "sgd"; });
  for (auto& cost : costs) {
    cost.ratio_to_sgd = cost.ms_per_step / sgd.ms_per_step;
    cost.peak_ratio_to_sgd =
        static_cast<double>(cost.peak_bytes) / static_cast<double>(sgd.peak_bytes);
  }
}

GpuCost gpu_cost(const BenchmarkOptions& options, torch::Device device) {
  GpuCost cost;
  cost.copy_bytes_per_second = copy_bytes_per_second(device);
  const auto shape = default_model_options(options.model);
  cost.ms_per_batch = milliseconds_per_device_batch(
      {shape.channels, shape.image_size, shape.image_size}, options.batch_size,
      options.memory_format == "channels-last", device);
  cost.batch_images_per_second = images_per_second(options, cost.ms_per_batch);
  return cost;
}

/// Statistics and update are spread over a step, so their time is the difference that they make to it.
/// Rounds that follow each other are compared, so that a speed that drifts cancels out.
UpdateCost update_cost(const BenchmarkWorkload& workload, const BenchmarkWorkload& passes,
                       const GpuCost& gpu) {
  UpdateCost cost;
  cost.statistics_bytes = workload.statistics_bytes();
  cost.update_bytes = workload.update_bytes();
  cost.floor_ms = 1e3 * static_cast<double>(cost.statistics_bytes + cost.update_bytes) /
                  gpu.copy_bytes_per_second;
  std::vector<double> differences;
  for (std::size_t i = 0; i < workload.rounds().size(); ++i) {
    differences.push_back(workload.rounds()[i] - passes.rounds()[i]);
  }
  cost.taken_ms = median(differences);
  return cost;
}

/// All that is compared, alive at the same time.
class Comparison {
 public:
  explicit Comparison(const BenchmarkOptions& options) : options_(options) {
    const torch::Device device(options.device);
    if (device.is_cuda()) {
      const auto of_rank = options_alone(options);
      gpu_ = gpu_cost(of_rank, device);
      // Before the others: what cuDNN tries once and cuBLAS keeps for good is then no optimizer's.
      passes_ = std::make_unique<BenchmarkWorkload>(of_rank, /*optimizer=*/"");
      if (!passes_->is_captured()) passes_.reset();
    }
    for (const auto& name : options.optimizers) {
      workloads_.push_back(std::make_unique<BenchmarkWorkload>(options, name));
    }
    auto& ranks = *options.ranks;
    if (ranks.size() == 1) return;
    ranks_ = {ranks.size(), images_of_rank(options.batch_size, /*rank=*/0, ranks.size()),
              measure_sums(ranks, device)};
    if (!ranks.is_first()) return;
    for (const auto& name : options.optimizers) {
      alone_.push_back(std::make_unique<BenchmarkWorkload>(options_alone(options), name));
    }
  }

  void run_rounds() {
    const auto steps = (options_.steps + kRounds - 1) / kRounds;
    for (std::int64_t round = 0; round < kRounds; ++round) {
      if (passes_) passes_->run_round(steps);
      for (std::size_t i = 0; i < workloads_.size(); ++i) {
        workloads_[i]->run_round(steps);
        if (!alone_.empty()) alone_[i]->run_round(steps);  // the others wait for their next round
      }
    }
  }

  BenchmarkResult result() const {
    BenchmarkResult result{{}, gpu_, ranks_};
    for (std::size_t i = 0; i < workloads_.size(); ++i) {
      const auto& workload = *workloads_[i];
      auto cost = cost_of(workload, options_.optimizers[i], options_);
      if (passes_ && cost.graph) cost.update = update_cost(workload, *passes_, *gpu_);
      cost.exchange = workload.exchange_cost();
      if (cost.exchange) {
        compare_with_alone(cost, alone_.empty() ? nullptr : alone_[i].get(), options_);
      }
      result.optimizers.push_back(std::move(cost));
    }
    if (passes_) result.gpu->forward_backward_ms = median(passes_->rounds());
    compare_with_sgd(result.optimizers);
    return result;
  }

 private:
  const BenchmarkOptions& options_;
  std::optional<GpuCost> gpu_;
  std::optional<RanksCost> ranks_;
  std::unique_ptr<BenchmarkWorkload> passes_;  // forward and backward; null without a graph
  std::vector<std::unique_ptr<BenchmarkWorkload>> workloads_;
  std::vector<std::unique_ptr<BenchmarkWorkload>>
      alone_;  // the same of rank 0 of several by itself
};

}  // namespace

BenchmarkResult measure_optimizers(BenchmarkOptions options) {
  const auto config = checked_config(options);
  if (options.ranks->size() > 1) {
    check_same_benchmark(options, config);
    options.graph = false;
  }
  set_up_libtorch(config);
  auto& names = options.optimizers;
  const bool with_sgd = std::find(names.begin(), names.end(), "sgd") != names.end();
  if (!with_sgd) names.emplace_back("sgd");
  const OwnStream stream{torch::Device(options.device)};
  Comparison comparison(options);
  comparison.run_rounds();
  auto result = comparison.result();
  if (!with_sgd) result.optimizers.pop_back();
  return result;
}

}  // namespace adaact
