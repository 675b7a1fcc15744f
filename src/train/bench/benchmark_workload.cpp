#include "train/bench/benchmark_workload.h"

#include <algorithm>

#include <adaact/models/registry.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/observing_optimizer.h>
#include <adaact/optim/registry.h>
#include <torch/torch.h>

#include "optim/base/step_parts.h"
#include "train/bench/memory_meter.h"
#include "train/bench/memory_traffic.h"
#include "train/bench/timed_work.h"
#include "train/run/run_parts.h"

namespace adaact {
namespace {

constexpr std::int64_t kBatches = 3;  // in turn, so that no cache holds the next one
constexpr std::int64_t kWarmUpSteps = 3;
constexpr std::int64_t kFewestReplays = 20;  // of a round: short steps, which events time coarsely

std::int64_t bytes_of_state(const torch::optim::Optimizer& optimizer) {
  std::int64_t bytes = 0;
  const auto state = dynamic_cast<const HasNamedState&>(optimizer).export_state().to_file();
  for (const auto& [name, tensor] : state.tensors) {
    bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  return bytes;
}

}  // namespace

std::string optimizer_options_of(const BenchmarkOptions& options, const std::string& optimizer) {
  const auto given = options.options_of.find(optimizer);
  return given == options.options_of.end() ? "{}" : given->second;
}

BenchmarkWorkload::BenchmarkWorkload(const BenchmarkOptions& options, const std::string& optimizer)
    : settings_{torch::Device(options.device), options.precision == "bf16",
                options.memory_format == "channels-last"},
      images_of_step_(options.batch_size) {
  torch::manual_seed(0);
  MemoryMeter memory(settings_.device);
  model_ = make_model(options.model);
  model_->to(settings_.device);
  if (settings_.channels_last) lay_out_channels_last(*model_);
  if (!optimizer.empty()) {
    optimizer_ = make_optimizer(optimizer, *model_, optimizer_options_of(options, optimizer));
  }
  if (optimizer_ && options.ranks->size() > 1) {
    exchange_.emplace(*model_, *optimizer_, options.ranks);
  }
  make_batches(options);
  warm_up();
  peak_bytes_ = memory.peak_bytes();
  if (optimizer_) state_bytes_ = bytes_of_state(*optimizer_);
  if (!options.graph || !can_be_captured()) return;
  const auto record = cuda_graph_recorder();
  for (std::int64_t i = 0; i < kBatches; ++i) replayed_.emplace_back(optimizer_.get(), record);
  for (std::int64_t i = 0; i < kBatches; ++i) step();
  // All memory that a graph's steps need is taken while they are captured: in the second step of each.
  memory.restart_peak();
  for (std::int64_t i = 0; i < kBatches; ++i) step();
  peak_bytes_ = memory.peak_bytes();
}

void BenchmarkWorkload::make_batches(const BenchmarkOptions& options) {
  const auto shape = default_model_options(options.model);
  const auto images =
      images_of_rank(options.batch_size, options.ranks->rank(), options.ranks->size());
  for (std::int64_t i = 0; i < kBatches; ++i) {
    Batch batch;
    batch.images = torch::randn({images, shape.channels, shape.image_size, shape.image_size});
    batch.images = prepared_images(batch, settings_);
    batch.labels = torch::randint(shape.classes, {images}, torch::kLong).to(settings_.device);
    batches_.push_back(batch);
  }
}

void BenchmarkWorkload::warm_up() {
  if (dynamic_cast<const ObservingOptimizer*>(optimizer_.get()) != nullptr) {
    const StatisticsTraffic traffic(*model_);
    step();
    statistics_bytes_ = traffic.bytes();
  }
  for (std::int64_t i = 0; i < kWarmUpSteps; ++i) step();
  if (exchange_) exchange_->forget_first_steps();
}

std::int64_t BenchmarkWorkload::update_bytes() const {
  return update_traffic(*model_, state_bytes_);
}

void BenchmarkWorkload::run_round(std::int64_t steps) {
  if (is_captured()) {
    steps = std::max(steps, kFewestReplays);
    // The GPU's clock may have dropped, and its cache holds another's weights.
    for (std::int64_t i = 0; i < kWarmUpSteps; ++i) step();
  }
  if (exchange_) exchange_->begin_round();
  const auto taken = milliseconds_of(settings_.device, [&] {
    for (std::int64_t i = 0; i < steps; ++i) step();
  });
  if (exchange_) exchange_->end_round(steps);
  rounds_.push_back(taken / static_cast<double>(steps));
  // A step that is not finite is left out, and would look fast: then this throws.
  if (is_captured() && optimizer_) StepParts::of(*optimizer_)->settle();
}

void BenchmarkWorkload::step() {
  const auto turn = static_cast<std::size_t>(turn_++ % kBatches);
  const auto& batch = batches_[turn];
  if (is_captured()) {
    replayed_[turn].take([&] { gradients(batch); });
  } else if (optimizer_) {
    optimizer_->step([&] { return gradients(batch); });
  } else {
    gradients(batch);
  }
}

torch::Tensor BenchmarkWorkload::gradients(const Batch& batch) {
  optimizer_ ? optimizer_->zero_grad() : model_->zero_grad(/*set_to_none=*/true);
  const auto pass =
      training_pass(*model_, batch.images, {batch.labels}, images_of_step_, settings_);
  if (exchange_) exchange_->finish();
  return pass.loss;
}

std::optional<ExchangeCost> BenchmarkWorkload::exchange_cost() const {
  return exchange_ ? std::optional(exchange_->cost()) : std::nullopt;
}

bool BenchmarkWorkload::can_be_captured() const {
  if (!settings_.device.is_cuda() || !optimizer_) return settings_.device.is_cuda();
  // Where the host decides, graphs for all that passes may have to observe would take long to be ready.
  const auto* parts = StepParts::of(*optimizer_);
  return parts != nullptr && parts->host_work() == HostWork::Nothing;
}

}  // namespace adaact
