#include <adaact/train/optimizer_benchmark.h>

#include <algorithm>
#include <memory>
#include <utility>

#include <adaact/models/registry.h>
#include <adaact/train/run_config.h>
#include <torch/torch.h>

#include "train/bench/batch_benchmark.h"
#include "train/bench/benchmark_workload.h"
#include "train/bench/memory_traffic.h"
#include "train/bench/timed_work.h"
#include "train/graph/own_stream.h"
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
    config.optimizer_options = "{}";
    config.resolve();
  }
  TORCH_CHECK_VALUE(!options.optimizers.empty(),
                    "optimizers are empty, expected names such as adaact");
  TORCH_CHECK_VALUE(options.steps >= kRounds, "steps is ", options.steps, ", expected ≥ ", kRounds);
  return config;
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
      gpu_ = gpu_cost(options, device);
      // Before the others: what cuDNN tries once and cuBLAS keeps for good is then no optimizer's.
      passes_ = std::make_unique<BenchmarkWorkload>(options, /*optimizer=*/"");
      if (!passes_->is_captured()) passes_.reset();
    }
    for (const auto& name : options.optimizers) {
      workloads_.push_back(std::make_unique<BenchmarkWorkload>(options, name));
    }
  }

  void run_rounds() {
    const auto steps = (options_.steps + kRounds - 1) / kRounds;
    for (std::int64_t round = 0; round < kRounds; ++round) {
      if (passes_) passes_->run_round(steps);
      for (auto& workload : workloads_) workload->run_round(steps);
    }
  }

  BenchmarkResult result() const {
    BenchmarkResult result{{}, gpu_};
    for (std::size_t i = 0; i < workloads_.size(); ++i) {
      const auto& workload = *workloads_[i];
      auto cost = cost_of(workload, options_.optimizers[i], options_);
      if (passes_ && cost.graph) cost.update = update_cost(workload, *passes_, *gpu_);
      result.optimizers.push_back(std::move(cost));
    }
    if (passes_) result.gpu->forward_backward_ms = median(passes_->rounds());
    compare_with_sgd(result.optimizers);
    return result;
  }

 private:
  const BenchmarkOptions& options_;
  std::optional<GpuCost> gpu_;
  std::unique_ptr<BenchmarkWorkload> passes_;  // forward and backward; null without a graph
  std::vector<std::unique_ptr<BenchmarkWorkload>> workloads_;
};

}  // namespace

BenchmarkResult measure_optimizers(BenchmarkOptions options) {
  set_up_libtorch(checked_config(options));
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
