#include <adaact/train/optimizer_benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include <adaact/models/registry.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/registry.h>
#include <adaact/train/run_config.h>
#include <torch/torch.h>

#include "train/autocast.h"
#include "train/memory_meter.h"
#include "train/run_parts.h"

namespace adaact {
namespace {

constexpr std::int64_t kRounds = 5;
constexpr std::int64_t kWarmUpSteps = 3;

/// Checks through the configuration of a run what the two have in common.
RunConfig checked_config(const BenchmarkOptions& options) {
  RunConfig config;
  config.model = options.model;
  config.batch_size = options.batch_size;
  config.device = options.device;
  config.precision = options.precision;
  config.threads = options.threads;
  for (const auto& optimizer : options.optimizers) {
    config.optimizer = optimizer;
    config.optimizer_options = "{}";
    config.resolve();
  }
  TORCH_CHECK(!options.optimizers.empty(), "optimizers are empty, expected names such as adaact");
  TORCH_CHECK(options.steps >= kRounds, "steps is ", options.steps, ", expected ≥ ", kRounds);
  return config;
}

/// A model, an optimizer and a batch, as many steps as one likes.
class Workload {
 public:
  Workload(const BenchmarkOptions& options, const std::string& optimizer)
      : device_(options.device), bf16_(options.precision == "bf16") {
    torch::manual_seed(0);
    const auto shape = default_model_options(options.model);
    const MemoryMeter memory(device_);
    model_ = make_model(options.model, shape);
    model_->to(device_);
    optimizer_ = make_optimizer(optimizer, *model_);
    images_ = torch::randn({options.batch_size, shape.channels, shape.image_size, shape.image_size})
                  .to(device_);
    labels_ = torch::randint(shape.classes, {options.batch_size}, torch::kLong).to(device_);
    for (std::int64_t i = 0; i < kWarmUpSteps; ++i) step();
    cost_.optimizer = optimizer;
    cost_.peak_bytes = memory.peak_bytes();
    const auto state = dynamic_cast<const HasNamedState&>(*optimizer_).export_state().to_file();
    for (const auto& [name, tensor] : state.tensors) {
      cost_.state_bytes += static_cast<std::int64_t>(tensor.nbytes());
    }
  }

  void run_round(std::int64_t steps) {
    synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < steps; ++i) step();
    synchronize();
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    rounds_.push_back(taken.count() / static_cast<double>(steps));
  }

  OptimizerCost cost() const {
    auto cost = cost_;
    for (const auto each : rounds_) cost.ms_per_step += each / static_cast<double>(rounds_.size());
    cost.lowest_ms = *std::min_element(rounds_.begin(), rounds_.end());
    cost.highest_ms = *std::max_element(rounds_.begin(), rounds_.end());
    return cost;
  }

 private:
  void step() {
    optimizer_->step([&] {
      optimizer_->zero_grad();
      auto loss =
          torch::cross_entropy_loss(forward_with_autocast(*model_, images_, bf16_), labels_);
      loss.backward();
      return loss;
    });
  }

  void synchronize() const {
    if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
  }

  torch::Device device_;
  bool bf16_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  torch::Tensor images_;
  torch::Tensor labels_;
  std::vector<double> rounds_;
  OptimizerCost cost_;
};

}  // namespace

std::vector<OptimizerCost> measure_optimizers(BenchmarkOptions options) {
  set_up_libtorch(checked_config(options));
  auto& names = options.optimizers;
  const bool with_sgd = std::find(names.begin(), names.end(), "sgd") != names.end();
  if (!with_sgd) names.emplace_back("sgd");
  std::vector<std::unique_ptr<Workload>> workloads;
  workloads.reserve(names.size());
  for (const auto& name : names) workloads.push_back(std::make_unique<Workload>(options, name));
  for (std::int64_t round = 0; round < kRounds; ++round) {
    for (auto& workload : workloads) {
      workload->run_round((options.steps + kRounds - 1) / kRounds);
    }
  }
  std::vector<OptimizerCost> costs;
  costs.reserve(workloads.size());
  for (const auto& workload : workloads) costs.push_back(workload->cost());
  const auto sgd = std::find_if(costs.begin(), costs.end(),
                                [](const auto& cost) { return cost.optimizer == "sgd"; });
  const auto reference = sgd->ms_per_step;
  for (auto& cost : costs) cost.ratio_to_sgd = cost.ms_per_step / reference;
  if (!with_sgd) costs.pop_back();
  return costs;
}

}  // namespace adaact
