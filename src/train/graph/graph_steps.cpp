#include "train/graph/graph_steps.h"

#ifdef ADAACT_WITH_CUDA

#include <functional>
#include <map>
#include <optional>
#include <utility>

#include <adaact/data/device_batches.h>
#include <adaact/optim/device_steps.h>
#include <adaact/optim/observing_optimizer.h>
#include <c10/util/ScopeExit.h>
#include <torch/torch.h>

#include "optim/device/global_norm_cuda.h"
#include "train/graph/captured_work.h"
#include "train/graph/device_batches_of.h"
#include "train/graph/set_up_mutex.h"
#include "train/probes/activation_probe.h"
#include "train/step/autocast.h"
#include "train/step/gradients_of.h"

namespace adaact {
namespace {

bool can_capture_updates(const torch::optim::Optimizer& optimizer) {
  const auto* steps = dynamic_cast<const TakesDeviceSteps*>(&optimizer);
  return steps != nullptr && steps->can_take_device_steps();
}

}  // namespace

class GraphSteps::Impl {
 public:
  Impl(Model& model, torch::optim::Optimizer& optimizer, const Loader& data, const Options& options)
      : model_(model),
        optimizer_(optimizer),
        device_steps_(can_capture_updates(optimizer) ? dynamic_cast<TakesDeviceSteps*>(&optimizer)
                                                     : nullptr),
        observing_(dynamic_cast<ObservingOptimizer*>(&optimizer)),
        options_(options),
        batches_(device_batches_of(data, options.device, options.channels_last)),
        readings_(
            torch::zeros({kMostUnread, 3}, torch::dtype(torch::kFloat64).device(options.device))),
        next_reading_(torch::zeros({1}, torch::dtype(torch::kInt64).device(options.device))),
        pool_(at::cuda::graph_pool_handle()) {}

  bool updates_are_captured() const { return device_steps_ != nullptr; }

  void start(std::int64_t epoch, std::int64_t first_batch) {
    batches_.start(epoch, first_batch);
    batch_ = first_batch;
    // An update that threw has left a reading.
    unread_ = 0;
    next_reading_.zero_();
  }

  void take_step() {
    TORCH_CHECK(unread_ < kMostUnread, "GraphSteps: ", unread_, " steps are unread, expected < ",
                kMostUnread);
    auto& step = next_step();
    if (updates_are_captured()) {
      take_device_step(step);
    } else {
      take_step_after_passes(step);
    }
    ++batch_;
    ++unread_;
  }

  std::vector<StepReading> read() {
    const auto count = std::exchange(unread_, 0);
    const auto values = readings_.narrow(0, 0, count).cpu();
    const auto rows = values.accessor<double, 2>();
    std::vector<StepReading> readings;
    for (std::int64_t i = 0; i < count; ++i) {
      readings.push_back({rows[i][0], static_cast<std::int64_t>(rows[i][1]), rows[i][2]});
    }
    next_reading_.zero_();
    return readings;
  }

  void settle() {
    if (updates_are_captured()) device_steps_->read_steps();
  }

  SecondMoments second_moments() const { return last_of_epoch_->moments.read(); }

 private:
  struct Step {
    torch::Tensor images;
    torch::Tensor labels;
    bool is_last = false;
    bool has_run = false;
    std::unique_ptr<CapturedWork> captured;
    MomentReadings moments;
    // What the passes leave for an update in which the host takes part.
    std::vector<torch::Tensor> gradients;
    std::function<void()> report_observations;
    // What the update does in the same way every time, and with which memory it was captured.
    std::unique_ptr<CapturedWork> captured_update;
    std::vector<const void*> memory_of_update;
  };

  /// One graph for the ordinary steps and one for the last of an epoch, whose batch may be smaller and
  /// which also measures activations; and each of them for all that passes may have to observe.
  using Kind = std::pair<bool, std::vector<bool>>;

  Step& next_step() {
    const bool is_last = batch_ == batches_.batches_per_epoch() - 1;
    const auto observed =
        updates_are_captured() ? std::vector<bool>{} : observing_->layers_to_observe();
    auto& step = steps_[Kind(is_last, observed)];
    if (!step.images.defined()) {
      const auto size = batches_.batch_size(batch_);
      step.images = batches_.empty_images(size);
      step.labels = batches_.empty_labels(size);
      step.is_last = is_last;
    }
    if (is_last) last_of_epoch_ = &step;
    return step;
  }

  void take_device_step(Step& step) {
    if (optimizer_has_state_) device_steps_->send_learning_rates();
    if (!step.has_run || !optimizer_has_state_) {
      take_first(step);
      return;
    }
    if (!step.captured) capture(step, [&] { device_steps_->enqueue_step(); });
    step.captured->replay();
  }

  void take_step_after_passes(Step& step) {
    if (!step.has_run) {
      const std::lock_guard<std::mutex> lock(set_up_mutex());
      run(step, [&] { optimizer_.step(); });
      step.has_run = true;
      return;
    }
    if (!step.captured) {
      capture(step, [&] {
        step.gradients.clear();
        for (const auto& parameter : model_.parameters()) {
          step.gradients.push_back(parameter.grad());
        }
        step.report_observations = observing_->take_for_replay();
      });
    }
    step.captured->replay();
    // Another graph's gradients may lie elsewhere.
    const auto parameters = model_.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].mutable_grad() = step.gradients[i];
    }
    step.report_observations();
    observing_->set_update_runner(
        [&](const auto& work, const auto& memory) { replay_update(step, work, memory); });
    const auto done = c10::make_scope_exit([&] { observing_->set_update_runner({}); });
    optimizer_.step();
  }

  void replay_update(Step& step, const std::function<void()>& work,
                     const std::vector<const void*>& memory) {
    // Not even where the first steps were rejected may a capture make anything for the first time.
    if (!std::exchange(update_has_run_, true)) {
      work();
      return;
    }
    if (!step.captured_update || memory != step.memory_of_update) {
      const std::lock_guard<std::mutex> lock(set_up_mutex());
      step.captured_update = std::make_unique<CapturedWork>(pool_, work);
      step.memory_of_update = memory;
    }
    step.captured_update->replay();
  }

  /// What is captured later must not make anything for the first time.
  void take_first(Step& step) {
    const std::lock_guard<std::mutex> lock(set_up_mutex());
    if (optimizer_has_state_) {
      run(step, [&] { device_steps_->enqueue_step(); });
    } else {
      const auto skipped = device_steps_->skipped_steps();
      run(step, [&] { optimizer_.step(); });
      optimizer_has_state_ = device_steps_->skipped_steps() == skipped;
    }
    step.has_run = true;
  }

  /// The passes, and what is done after them.
  void capture(Step& step, const std::function<void()>& rest) {
    const std::lock_guard<std::mutex> lock(set_up_mutex());
    step.captured = std::make_unique<CapturedWork>(pool_, [&] { run(step, rest); });
  }

  template <typename Update>
  void run(Step& step, Update&& update) {
    std::optional<ActivationProbe> probe;
    if (step.is_last) probe.emplace(model_);
    batches_.enqueue_next(step.images, step.labels);
    optimizer_.zero_grad();
    const auto logits = forward_with_autocast(model_, step.images, options_.bf16);
    const auto loss = torch::cross_entropy_loss(logits, step.labels, {}, at::Reduction::Sum,
                                                /*ignore_index=*/-100, options_.label_smoothing) /
                      static_cast<double>(step.labels.size(0));
    loss.backward();
    record(loss.detach(), logits.detach().argmax(1).eq(step.labels).sum());
    if (probe) step.moments = probe->take_on_device();
    update();
  }

  void record(const torch::Tensor& loss, const torch::Tensor& correct) {
    const torch::NoGradGuard no_grad;
    const auto reading =
        torch::cat({loss.to(torch::kFloat64).view({1}), correct.to(torch::kFloat64).view({1}),
                    global_norm_cuda(gradients_of(model_))});
    readings_.index_copy_(0, next_reading_, reading.unsqueeze(0));
    next_reading_.add_(1);
  }

  Model& model_;
  torch::optim::Optimizer& optimizer_;
  TakesDeviceSteps* const device_steps_;  // null where updates are not captured
  ObservingOptimizer* const observing_;
  const Options options_;
  DeviceBatches batches_;
  torch::Tensor readings_;      // (steps, 3): loss, right answers, norm of the gradient
  torch::Tensor next_reading_;  // (1): the row that the next step writes
  const at::cuda::MempoolId_t pool_;
  std::map<Kind, Step> steps_;
  const Step* last_of_epoch_ = nullptr;
  bool optimizer_has_state_ = false;
  bool update_has_run_ = false;
  std::int64_t batch_ = 0;
  std::int64_t unread_ = 0;
};

GraphSteps::GraphSteps(Model& model, torch::optim::Optimizer& optimizer, const Loader& data,
                       const Options& options)
    : impl_(std::make_unique<Impl>(model, optimizer, data, options)) {}
GraphSteps::~GraphSteps() {
  // A graph takes leave of LibTorch's generator, which those of other threads know, too.
  const std::lock_guard<std::mutex> lock(set_up_mutex());
  impl_.reset();
}

std::string GraphSteps::obstacle(const torch::optim::Optimizer& optimizer) {
  const bool observes = dynamic_cast<const ObservingOptimizer*>(&optimizer) != nullptr;
  return can_capture_updates(optimizer) || observes ? ""
                                                    : "this optimizer's steps cannot be captured";
}

void GraphSteps::start(std::int64_t epoch, std::int64_t first_batch) {
  impl_->start(epoch, first_batch);
}
bool GraphSteps::updates_are_captured() const { return impl_->updates_are_captured(); }
void GraphSteps::take_step() { impl_->take_step(); }
std::vector<StepReading> GraphSteps::read() { return impl_->read(); }
void GraphSteps::settle() { impl_->settle(); }
SecondMoments GraphSteps::second_moments() const { return impl_->second_moments(); }

}  // namespace adaact

#endif
