#include "train/graph_steps.h"

#ifdef ADAACT_WITH_CUDA

#include <optional>
#include <utility>

#include <adaact/data/device_batches.h>
#include <adaact/optim/device_steps.h>
#include <torch/torch.h>

#include "optim/global_norm_cuda.h"
#include "train/activation_probe.h"
#include "train/autocast.h"
#include "train/captured_work.h"
#include "train/device_batches_of.h"
#include "train/gradients_of.h"
#include "train/set_up_mutex.h"

namespace adaact {
class GraphSteps::Impl {
 public:
  Impl(Model& model, torch::optim::Optimizer& optimizer, const Loader& data, const Options& options)
      : model_(model),
        optimizer_(optimizer),
        device_steps_(dynamic_cast<TakesDeviceSteps&>(optimizer)),
        options_(options),
        batches_(device_batches_of(data, options.device, options.channels_last)),
        readings_(
            torch::zeros({kMostUnread, 3}, torch::dtype(torch::kFloat64).device(options.device))),
        next_reading_(torch::zeros({1}, torch::dtype(torch::kInt64).device(options.device))),
        pool_(at::cuda::graph_pool_handle()) {
    const auto last = batches_.batches_per_epoch() - 1;
    prepare(ordinary_, batches_.batch_size(0));
    prepare(last_, batches_.batch_size(last));
    last_.is_last = true;
  }

  void start(std::int64_t epoch, std::int64_t first_batch) {
    batches_.start(epoch, first_batch);
    batch_ = first_batch;
  }

  void take_step() {
    TORCH_CHECK(unread_ < kMostUnread, "GraphSteps: ", unread_, " steps are unread, expected < ",
                kMostUnread);
    auto& step = batch_ == batches_.batches_per_epoch() - 1 ? last_ : ordinary_;
    if (optimizer_has_state_) device_steps_.send_learning_rates();
    if (step.has_run && optimizer_has_state_) {
      if (!step.captured) capture(step);
      step.captured->replay();
    } else {
      take_first(step);
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

  void settle() { device_steps_.read_steps(); }

  SecondMoments second_moments() const { return last_.moments.read(); }

 private:
  /// One graph for the ordinary steps and one for the last of an epoch, whose batch may be smaller and
  /// which also measures activations.
  struct Step {
    torch::Tensor images;
    torch::Tensor labels;
    bool is_last = false;
    bool has_run = false;
    std::unique_ptr<CapturedWork> captured;
    MomentReadings moments;
  };

  void prepare(Step& step, std::int64_t size) const {
    step.images = batches_.empty_images(size);
    step.labels = batches_.empty_labels(size);
  }

  /// What is captured later must not make anything for the first time.
  void take_first(Step& step) {
    const std::lock_guard<std::mutex> lock(set_up_mutex());
    if (optimizer_has_state_) {
      run(step, [&] { device_steps_.enqueue_step(); });
    } else {
      const auto skipped = device_steps_.skipped_steps();
      run(step, [&] { optimizer_.step(); });
      optimizer_has_state_ = device_steps_.skipped_steps() == skipped;
    }
    step.has_run = true;
  }

  void capture(Step& step) {
    const std::lock_guard<std::mutex> lock(set_up_mutex());
    step.captured = std::make_unique<CapturedWork>(
        pool_, [&] { run(step, [&] { device_steps_.enqueue_step(); }); });
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
  TakesDeviceSteps& device_steps_;
  const Options options_;
  DeviceBatches batches_;
  torch::Tensor readings_;      // (steps, 3): loss, right answers, norm of the gradient
  torch::Tensor next_reading_;  // (1): the row that the next step writes
  const at::cuda::MempoolId_t pool_;
  Step ordinary_;
  Step last_;
  bool optimizer_has_state_ = false;
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
  const auto* steps = dynamic_cast<const TakesDeviceSteps*>(&optimizer);
  const bool can = steps != nullptr && steps->can_take_device_steps();
  return can ? "" : "this optimizer's steps cannot be captured";
}

void GraphSteps::start(std::int64_t epoch, std::int64_t first_batch) {
  impl_->start(epoch, first_batch);
}
void GraphSteps::take_step() { impl_->take_step(); }
std::vector<StepReading> GraphSteps::read() { return impl_->read(); }
void GraphSteps::settle() { impl_->settle(); }
SecondMoments GraphSteps::second_moments() const { return impl_->second_moments(); }

}  // namespace adaact

#endif
