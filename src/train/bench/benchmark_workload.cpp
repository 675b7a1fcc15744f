#include "train/bench/benchmark_workload.h"

#include <algorithm>

#include <adaact/models/registry.h>
#include <adaact/optim/device_steps.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/observing_optimizer.h>
#include <adaact/optim/registry.h>
#include <torch/torch.h>
#ifdef ADAACT_WITH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

#include "train/bench/memory_meter.h"
#include "train/bench/memory_traffic.h"
#include "train/bench/timed_work.h"
#include "train/run/run_parts.h"
#include "train/step/autocast.h"

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

BenchmarkWorkload::BenchmarkWorkload(const BenchmarkOptions& options, const std::string& optimizer)
    : device_(options.device),
      bf16_(options.precision == "bf16"),
      format_(options.memory_format == "channels-last" ? torch::MemoryFormat::ChannelsLast
                                                       : torch::MemoryFormat::Contiguous) {
  torch::manual_seed(0);
#ifdef ADAACT_WITH_CUDA
  // Blocks left over from others would be handed out, and counted, where smaller ones would do.
  if (device_.is_cuda()) c10::cuda::CUDACachingAllocator::emptyCache();
#endif
  MemoryMeter memory(device_);
  model_ = make_model(options.model);
  model_->to(device_);
  if (format_ == torch::MemoryFormat::ChannelsLast) lay_out_channels_last(*model_);
  if (!optimizer.empty()) optimizer_ = make_optimizer(optimizer, *model_);
  make_batches(options);
  warm_up();
  peak_bytes_ = memory.peak_bytes();
  if (optimizer_) state_bytes_ = bytes_of_state(*optimizer_);
  if (!options.graph || !can_be_captured()) return;
  // All memory that a graph's steps need is taken while they are captured.
  memory.restart_peak();
  capture();
  peak_bytes_ = memory.peak_bytes();
}

void BenchmarkWorkload::make_batches(const BenchmarkOptions& options) {
  const auto shape = default_model_options(options.model);
  for (std::int64_t i = 0; i < kBatches; ++i) {
    batches_.push_back(
        {torch::randn({options.batch_size, shape.channels, shape.image_size, shape.image_size})
             .to(device_)
             .contiguous(format_),
         torch::randint(shape.classes, {options.batch_size}, torch::kLong).to(device_)});
  }
}

void BenchmarkWorkload::warm_up() {
  if (dynamic_cast<const ObservingOptimizer*>(optimizer_.get()) != nullptr) {
    const StatisticsTraffic traffic(*model_);
    step();
    statistics_bytes_ = traffic.bytes();
  }
  for (std::int64_t i = 0; i < kWarmUpSteps; ++i) step();
}

std::int64_t BenchmarkWorkload::update_bytes() const {
  return update_traffic(*model_, state_bytes_);
}

void BenchmarkWorkload::run_round(std::int64_t steps) {
  if (is_captured_) {
    steps = std::max(steps, kFewestReplays);
    // The GPU's clock may have dropped, and its cache holds another's weights.
    for (std::int64_t i = 0; i < kWarmUpSteps; ++i) step();
  }
  const auto taken = milliseconds_of(device_, [&] {
    for (std::int64_t i = 0; i < steps; ++i) step();
  });
  rounds_.push_back(taken / static_cast<double>(steps));
  // A step that is not finite is left out, and would look fast: then this throws.
  auto* on_device = dynamic_cast<TakesDeviceSteps*>(optimizer_.get());
  if (is_captured_ && on_device != nullptr) on_device->read_steps();
}

void BenchmarkWorkload::step() {
  const auto turn = static_cast<std::size_t>(turn_++ % kBatches);
#ifdef ADAACT_WITH_CUDA
  if (is_captured_) {
    captured_[turn]->replay();
    return;
  }
#endif
  if (optimizer_) {
    optimizer_->step([&] { return gradients(batches_[turn]); });
  } else {
    gradients(batches_[turn]);
  }
}

torch::Tensor BenchmarkWorkload::gradients(const Batch& batch) {
  optimizer_ ? optimizer_->zero_grad() : model_->zero_grad(/*set_to_none=*/true);
  auto loss =
      torch::cross_entropy_loss(forward_with_autocast(*model_, batch.images, bf16_), batch.labels);
  loss.backward();
  return loss;
}

bool BenchmarkWorkload::can_be_captured() const {
  if (!device_.is_cuda() || !optimizer_) return device_.is_cuda();
  const auto* steps = dynamic_cast<const TakesDeviceSteps*>(optimizer_.get());
  return steps != nullptr && steps->can_take_device_steps();
}

void BenchmarkWorkload::capture() {
#ifdef ADAACT_WITH_CUDA
  auto* steps = dynamic_cast<TakesDeviceSteps*>(optimizer_.get());
  if (steps != nullptr) steps->send_learning_rates();
  const auto pool = at::cuda::graph_pool_handle();
  for (const auto& batch : batches_) {
    captured_.push_back(std::make_unique<CapturedWork>(pool, [&] {
      gradients(batch);
      if (steps != nullptr) steps->enqueue_step();
    }));
  }
  is_captured_ = true;
  for (std::int64_t i = 0; i < kBatches; ++i) step();
#endif
}

}  // namespace adaact
