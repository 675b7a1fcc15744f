#include <adaact/train/trainer.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#ifdef ADAACT_WITH_CUDA
#include <adaact/data/device_batches.h>
#endif
#include <adaact/optim/non_finite.h>
#include <adaact/train/evaluate.h>
#include <torch/torch.h>

#include "optim/base/parameter_update.h"
#include "train/graph/device_evaluation.h"
#include "train/graph/graph_steps.h"
#include "train/graph/own_stream.h"
#include "train/graph/set_up_mutex.h"
#include "train/probes/activation_probe.h"
#include "train/probes/activation_variances.h"
#include "train/step/autocast.h"
#include "train/step/gradients_of.h"
#include "train/step/images_on.h"

namespace adaact {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Scales all gradients so that their norm together is at most `largest`; returns what it was.
double clip_gradients(const torch::nn::Module& model, double largest) {
  const auto gradients = gradients_of(model);
  const auto norm = global_norm(gradients);
  if (norm > largest) {
    for (const auto& gradient : gradients) gradient.mul_(largest / norm);
  }
  return norm;
}

std::vector<torch::Tensor> copies_of_parameters(const torch::nn::Module& model) {
  std::vector<torch::Tensor> copies;
  for (const auto& parameter : model.parameters()) copies.push_back(parameter.detach().clone());
  return copies;
}

double distance(const torch::nn::Module& model, std::vector<torch::Tensor> before) {
  const auto parameters = model.parameters();
  for (std::size_t i = 0; i < before.size(); ++i) before[i].sub_(parameters[i].detach());
  return global_norm(before);
}

}  // namespace

class Trainer::Impl {
 public:
  Impl(const Trainer& self, Model& model, torch::optim::Optimizer& optimizer, Loader& train_data,
       Loader& test_data, TrainerOptions options)
      : self_(self),
        model_(model),
        optimizer_(optimizer),
        train_data_(train_data),
        test_data_(test_data),
        options_(std::move(options)),
        scheduler_(optimizer, options_.schedule) {
    TORCH_CHECK(options_.epochs >= 1, "Trainer: epochs is ", options_.epochs, ", expected ≥ 1");
    TORCH_CHECK(options_.accumulation >= 1, "Trainer: accumulation is ", options_.accumulation,
                ", expected ≥ 1");
    TORCH_CHECK(options_.clip_norm > 0.0, "Trainer: clip_norm is ", options_.clip_norm,
                ", expected > 0");
    check_graph();
    TORCH_CHECK(options_.update_norm_every >= 1, "Trainer: update_norm_every is ",
                options_.update_norm_every, ", expected ≥ 1");
  }

  bool run() {
    for (auto* callback : callbacks_) callback->on_start(self_);
    const OwnStream stream(options_.device);
    if (options_.activation_variances && !variances_) observe_variances();
#ifdef ADAACT_WITH_CUDA
    if (options_.graph) set_up_graphs();
#endif
    while (state_.epoch < options_.epochs) {
      const auto test = train_one_epoch() ? evaluate_now() : std::nullopt;
      if (!test) {
        if (variances_) state_.activation_totals = variances_->totals();
        return false;
      }
      end_epoch(*test);
    }
    return true;
  }

  void add_callback(TrainingCallback& callback) { callbacks_.push_back(&callback); }

  std::int64_t steps_per_epoch() const {
    return Trainer::steps_per_epoch(train_data_, options_.accumulation);
  }
  std::int64_t steps() const { return options_.epochs * steps_per_epoch(); }

  const TrainerState& state() const noexcept { return state_; }

  void set_state(const TrainerState& state) {
#ifdef ADAACT_WITH_CUDA
    // They know where the optimizer's state was.
    graph_steps_.reset();
    graph_evaluation_.reset();
#endif
    variances_.reset();
    state_ = state;
    scheduler_.set_time(state.step);
  }

 private:
  using Batches = std::vector<Batch>;

  void check_graph() const {
    if (!options_.graph) return;
    const auto obstacle = Trainer::obstacle_to_graph(optimizer_, train_data_, test_data_, options_);
    TORCH_CHECK(obstacle.empty(), "Trainer: graph is set, but ", obstacle);
  }

  void observe_variances() {
    variances_.emplace(model_);
    if (!state_.activation_totals.empty()) variances_->set_totals(state_.activation_totals);
  }

  /// The steps that the epoch still lacks; false where it was stopped.
  bool train_epoch() {
    model_.train();
    train_data_.start(state_.epoch, state_.batch);
    while (true) {
      if (options_.should_stop()) return false;
      const auto waited_before = train_data_.seconds_waited();
      const auto batches = next_batches();
      if (batches.empty()) return true;
      StepMetrics metrics;
      metrics.wait_seconds = train_data_.seconds_waited() - waited_before;
      take_step(batches, metrics);
      for (auto* callback : callbacks_) callback->on_step(self_, metrics);
    }
  }

  bool train_one_epoch() {
#ifdef ADAACT_WITH_CUDA
    if (graph_steps_) return train_epoch_by_graph();
#endif
    return train_epoch();
  }

  std::optional<Evaluation> evaluate_now() {
#ifdef ADAACT_WITH_CUDA
    if (graph_evaluation_) return graph_evaluation_->run(options_.should_stop);
#endif
    return evaluate_unless(options_.should_stop, model_, test_data_, options_.device, options_.bf16,
                           options_.channels_last);
  }

#ifdef ADAACT_WITH_CUDA

  void set_up_graphs() {
    if (graph_steps_) return;
    const std::lock_guard<std::mutex> lock(set_up_mutex());
    GraphSteps::Options options;
    options.label_smoothing = options_.label_smoothing;
    options.bf16 = options_.bf16;
    options.channels_last = options_.channels_last;
    options.device = options_.device;
    graph_steps_ = std::make_unique<GraphSteps>(model_, optimizer_, train_data_, options);
    graph_evaluation_ = std::make_unique<DeviceEvaluation>(model_, test_data_, options_.device,
                                                           options_.bf16, options_.channels_last);
  }

  /// Steps that may be taken before somebody must look: until one whose update is measured, until
  /// callbacks may want the state, until the epoch ends.
  std::int64_t steps_until_read() const {
    if (!graph_steps_->updates_are_captured()) return 1;
    const auto until_next = [this](std::int64_t period) { return period - state_.step % period; };
    constexpr std::int64_t kMost = 64;  // so that progress is seen and a wish to stop is heard
    auto steps = std::min(kMost, until_next(steps_per_epoch()));
    if (options_.state_every > 0) steps = std::min(steps, until_next(options_.state_every));
    const auto until_measured = until_next(options_.update_norm_every);
    return until_measured == 1 ? 1 : std::min(steps, until_measured - 1);
  }

  std::int64_t images_of_batch(std::int64_t batch) const {
    const auto size = train_data_.options().batch_size;
    return std::min(size, train_data_.dataset().size() - batch * size);
  }

  bool train_epoch_by_graph() {
    model_.train();
    graph_steps_->start(state_.epoch, state_.batch);
    while (state_.batch < train_data_.batches_per_epoch()) {
      if (options_.should_stop()) return false;
      take_steps_by_graph(steps_until_read());
    }
    return true;
  }

  void take_steps_by_graph(std::int64_t count) {
    const bool measure_update = (state_.step + 1) % options_.update_norm_every == 0;
    const auto before =
        measure_update ? copies_of_parameters(model_) : std::vector<torch::Tensor>{};
    const auto start = now();
    std::vector<double> rates;
    for (std::int64_t i = 0; i < count; ++i) {
      rates.push_back(optimizer_.param_groups().front().options().get_lr());
      graph_steps_->take_step();
      scheduler_.step();
    }
    auto readings = graph_steps_->read();
    const auto seconds = (now() - start) / static_cast<double>(count);
    const auto rejected = settle_steps(readings);
    if ((state_.step + count) % steps_per_epoch() == 0) {
      state_.second_moments = graph_steps_->second_moments();
    }
    for (std::size_t i = 0; i < readings.size(); ++i) {
      StepMetrics metrics;
      metrics.loss = readings[i].loss;
      metrics.gradient_norm = readings[i].gradient_norm;
      metrics.learning_rate = rates[i];
      metrics.seconds = seconds;
      if (measure_update) metrics.update_norm = distance(model_, before);
      count_step(metrics, readings[i].correct, images_of_batch(state_.batch), 1);
      for (auto* callback : callbacks_) callback->on_step(self_, metrics);
    }
    if (rejected) std::rethrow_exception(rejected);
  }

  /// The error of a step that was not finite, if that is one. Of the readings those before it remain,
  /// which callbacks are still to hear of; the last step of all never is one of them, because what it left
  /// is not what a callback may save.
  std::exception_ptr settle_steps(std::vector<StepReading>& readings) {
    try {
      graph_steps_->settle();
      return nullptr;
    } catch (const NonFiniteError&) {
      const auto first =
          std::find_if(readings.begin(), readings.end() - 1, [](const auto& reading) {
            return !std::isfinite(reading.loss) || !std::isfinite(reading.gradient_norm);
          });
      readings.erase(first, readings.end());
      return std::current_exception();
    }
  }

#endif

  Batches next_batches() {
    Batches batches;
    while (static_cast<std::int64_t>(batches.size()) < options_.accumulation) {
      auto batch = train_data_.next();
      if (!batch) break;
      batches.push_back(std::move(*batch));
    }
    return batches;
  }

  void take_step(const Batches& batches, StepMetrics& metrics) {
    const bool last_of_epoch = (state_.step + 1) % steps_per_epoch() == 0;
    const bool measure_update = (state_.step + 1) % options_.update_norm_every == 0;
    const auto before =
        measure_update ? copies_of_parameters(model_) : std::vector<torch::Tensor>{};
    std::int64_t images = 0;
    for (const auto& batch : batches) images += batch.size();

    std::optional<ActivationProbe> probe;
    if (last_of_epoch) probe.emplace(model_);

    const auto start = now();
    std::int64_t correct = 0;
    bool first_pass = true;  // SAM makes a second one, elsewhere: not what the step was like
    optimizer_.step([&] {
      optimizer_.zero_grad();
      const auto pass = accumulate_gradients(batches, images);
      const auto norm = clip_gradients(model_, options_.clip_norm);
      if (std::exchange(first_pass, false)) {
        metrics.loss = pass.loss;
        metrics.gradient_norm = norm;
        correct = pass.correct;
        if (probe) state_.second_moments = probe->take();
      }
      return torch::tensor(pass.loss, torch::kFloat64);
    });
    metrics.learning_rate = optimizer_.param_groups().front().options().get_lr();
    scheduler_.step();
    metrics.seconds = now() - start;
    if (measure_update) metrics.update_norm = distance(model_, before);

    count_step(metrics, correct, images, static_cast<std::int64_t>(batches.size()));
  }

  void count_step(StepMetrics& metrics, std::int64_t correct, std::int64_t images,
                  std::int64_t batches) {
    metrics.step = state_.step + 1;
    metrics.epoch = state_.epoch;
    metrics.top1 = static_cast<double>(correct) / static_cast<double>(images);
    const auto seconds = metrics.seconds + metrics.wait_seconds;
    metrics.images_per_second = static_cast<double>(images) / seconds;
    state_.step += 1;
    state_.batch += batches;
    state_.seconds += seconds;
    state_.epoch_seconds += seconds;
    state_.loss_sum += metrics.loss * static_cast<double>(images);
    state_.correct += correct;
    state_.images += images;
    const bool may_be_saved = options_.state_every > 0 && state_.step % options_.state_every == 0;
    if (variances_ && may_be_saved) state_.activation_totals = variances_->totals();
  }

  struct Pass {
    double loss = 0.0;
    std::int64_t correct = 0;
  };

  /// Forward and backward of all batches of a step; the gradients are those of the mean loss.
  Pass accumulate_gradients(const Batches& batches, std::int64_t images) {
    Pass pass;
    for (const auto& batch : batches) {
      const auto labels = batch.labels.to(options_.device);
      const auto logits = forward_with_autocast(
          model_, images_on(options_.device, batch, options_.channels_last), options_.bf16);
      const auto loss = torch::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum,
                                                  /*ignore_index=*/-100, options_.label_smoothing) /
                        static_cast<double>(images);
      loss.backward();
      pass.loss += loss.item<double>();
      pass.correct += logits.detach().argmax(1).eq(labels).sum().item<std::int64_t>();
    }
    return pass;
  }

  void end_epoch(const Evaluation& test) {
    const auto images = static_cast<double>(state_.images);
    EpochMetrics metrics;
    metrics.step = state_.step;
    metrics.epoch = state_.epoch;
    metrics.train_loss = state_.loss_sum / images;
    metrics.train_top1 = static_cast<double>(state_.correct) / images;
    metrics.test = test;
    metrics.seconds = state_.seconds;
    metrics.images_per_second = images / state_.epoch_seconds;
    metrics.second_moments = std::move(state_.second_moments);
    if (variances_) {
      metrics.activation_variances = variances_->read();
      variances_->reset();
    }
    TrainerState next;
    next.step = state_.step;
    next.epoch = state_.epoch + 1;
    next.seconds = state_.seconds;
    state_ = next;
    for (auto* callback : callbacks_) callback->on_epoch(self_, metrics);
  }

  const Trainer& self_;
  Model& model_;
  torch::optim::Optimizer& optimizer_;
  Loader& train_data_;
  Loader& test_data_;
  const TrainerOptions options_;
  ScheduledLR scheduler_;
  std::vector<TrainingCallback*> callbacks_;
  TrainerState state_;
  std::optional<ActivationVariances> variances_;
#ifdef ADAACT_WITH_CUDA
  std::unique_ptr<GraphSteps> graph_steps_;
  std::unique_ptr<DeviceEvaluation> graph_evaluation_;
#endif
};

Trainer::Trainer(Model& model, torch::optim::Optimizer& optimizer, Loader& train_data,
                 Loader& test_data, TrainerOptions options)
    : impl_(std::make_unique<Impl>(*this, model, optimizer, train_data, test_data,
                                   std::move(options))) {}
Trainer::~Trainer() = default;
void Trainer::add_callback(TrainingCallback& callback) { impl_->add_callback(callback); }
bool Trainer::run() { return impl_->run(); }
std::string Trainer::obstacle_to_graph(const torch::optim::Optimizer& optimizer,
                                       const Loader& train_data, const Loader& test_data,
                                       const TrainerOptions& options) {
  if (!options.device.is_cuda()) return "the device is no GPU";
  if (options.accumulation != 1) return "several batches make a step";
  if (std::isfinite(options.clip_norm)) return "gradients are clipped";
#ifdef ADAACT_WITH_CUDA
  for (const auto* data : {&train_data, &test_data}) {
    if (!DeviceBatches::fits(data->dataset(), options.device)) {
      return "data of this size do not fit on the GPU";
    }
  }
  return GraphSteps::obstacle(optimizer);
#else
  (void)optimizer;
  (void)train_data;
  (void)test_data;
  return "this is a build without CUDA";
#endif
}
std::int64_t Trainer::steps_per_epoch() const { return impl_->steps_per_epoch(); }
std::int64_t Trainer::steps() const { return impl_->steps(); }
std::int64_t Trainer::steps_per_epoch(const Loader& train_data, std::int64_t accumulation) {
  return (train_data.batches_per_epoch() + accumulation - 1) / accumulation;
}
const TrainerState& Trainer::state() const noexcept { return impl_->state(); }
void Trainer::set_state(const TrainerState& state) { impl_->set_state(state); }

}  // namespace adaact
