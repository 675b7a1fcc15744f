#include <adaact/train/trainer.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <adaact/optim/observing_optimizer.h>
#include <torch/torch.h>

#include "data/batch_parts.h"
#include "kernels/each_once.h"
#include "kernels/global_norm.h"
#include "train/graph/graph_engine.h"
#include "train/graph/own_stream.h"
#include "train/loop/state_problem.h"
#include "train/probes/activation_variances.h"
#include "train/step/rank_totals.h"
#include "train/step/step_engine.h"
#include "train/step/weight_average.h"

namespace adaact {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<torch::Tensor> copies_of_parameters(const torch::nn::Module& model) {
  std::vector<torch::Tensor> copies;
  for (const auto& parameter : each_once(model.parameters())) {
    copies.push_back(parameter.detach().clone());
  }
  return copies;
}

double distance(const torch::nn::Module& model, std::vector<torch::Tensor> before) {
  const auto parameters = each_once(model.parameters());
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
    TORCH_CHECK(options_.ema_decay >= 0.0 && options_.ema_decay < 1.0, "Trainer: ema_decay is ",
                options_.ema_decay, ", expected [0, 1)");
    TORCH_CHECK(options_.update_norm_every >= 1, "Trainer: update_norm_every is ",
                options_.update_norm_every, ", expected ≥ 1");
    if (!options_.ranks->is_alone()) train_together();
    if (!options_.graph) return;
    const auto obstacle = Trainer::obstacle_to_graph(optimizer_, train_data_, options_);
    TORCH_CHECK(obstacle.empty(), "Trainer: graph is set, but ", obstacle);
  }

  bool run() {
    for (auto* callback : callbacks_) callback->on_start(self_);
    const OwnStream stream(options_.device);
    if (options_.activation_variances && !variances_) observe_variances();
    if (!engine_) engine_ = make_engine();
    if (options_.ema_decay > 0.0 && !average_) {
      average_.emplace(model_, options_.ema_decay, state_.average);
    }
    while (!finished_on_any_rank()) {
      const auto last = options_.stop_after_epoch;
      if (last > 0 && state_.epoch >= last) return false;
      const auto test = train_epoch() ? evaluate() : std::nullopt;
      if (!test) {
        if (variances_) state_.activation_totals = variances_->totals();
        return false;
      }
      end_epoch(*test);
    }
    return true;
  }

  bool finished() const {
    const bool between_epochs = state_.batch == 0;
    return state_.epoch >= options_.epochs || (between_epochs && options_.is_enough());
  }

  const Model& model() const noexcept { return model_; }
  const Loader& train_data() const noexcept { return train_data_; }
  const Loader& test_data() const noexcept { return test_data_; }

  void add_callback(TrainingCallback& callback) { callbacks_.push_back(&callback); }

  std::int64_t steps_per_epoch() const {
    return Trainer::steps_per_epoch(train_data_, options_.accumulation);
  }
  std::int64_t steps() const { return options_.epochs * steps_per_epoch(); }

  const TrainerState& state() const noexcept { return state_; }

  std::string problem_with(const TrainerState& state) const {
    const auto problem = problem_of_average(state);
    if (!problem.empty()) return problem;
    return problem_with_state(
        state, {options_.epochs, train_data_.dataset().size(), train_data_.batches_per_epoch(),
                train_data_.options().batch_size, options_.accumulation,
                ActivationVariances::numbers_of(model_)});
  }

  void set_state(const TrainerState& state) {
    const auto problem = problem_with(state);
    TORCH_CHECK(problem.empty(), "Trainer: ", problem);
    engine_.reset();  // its graphs know where the optimizer's state was
    variances_.reset();
    average_.reset();
    state_ = state;
    scheduler_.set_time(state.step);
  }

 private:
  void train_together() {
    auto& ranks = *options_.ranks;
    TORCH_CHECK(!options_.activation_variances || ranks.size() == 1,
                "Trainer: activation_variances is set, but there are ", ranks.size(),
                " ranks, expected 1: variances over a batch need all of its images in one place");
    for (const auto* data : {&train_data_, &test_data_}) {
      const auto& of = data->options();
      TORCH_CHECK(of.parts == ranks.size() && of.part == ranks.rank(),
                  "Trainer: a loader gives part ", of.part, " of ", of.parts, ", expected part ",
                  ranks.rank(), " of ", ranks.size(), ", as there are ranks");
    }
    share_statistics(optimizer_, options_.ranks);
  }

  std::string problem_of_average(const TrainerState& state) const {
    if (state.average.empty() && (options_.ema_decay == 0.0 || state.step == 0)) return {};
    if (options_.ema_decay > 0.0) return problem_with_average(state.average, model_);
    return "'average' has " + std::to_string(state.average.size()) + " parameters, expected none";
  }

  /// A signal reaches one rank sooner than the other, and all must stop before the same step.
  bool finished_on_any_rank() const { return any_rank(finished(), *options_.ranks); }
  bool should_stop() const { return any_rank(options_.should_stop(), *options_.ranks); }

  void observe_variances() {
    variances_.emplace(model_);
    if (!state_.activation_totals.empty()) variances_->set_totals(state_.activation_totals);
  }

  std::unique_ptr<StepEngine> make_engine() const {
    const TrainingTask task{model_,
                            optimizer_,
                            train_data_,
                            test_data_,
                            {options_.device, options_.bf16, options_.channels_last,
                             options_.label_smoothing, options_.loss},
                            options_.ranks,
                            options_.sync_batchnorm};
    const auto make = options_.graph ? make_graph_engine : make_eager_engine;
    return make(task, options_.accumulation, options_.clip_norm);
  }

  /// Takes the steps that the epoch still lacks. Returns false where it was stopped.
  bool train_epoch() {
    model_.train();
    engine_->start(state_.epoch, state_.batch);
    while (true) {
      if (should_stop()) return false;
      if (state_.batch >= train_data_.batches_per_epoch()) return true;
      take_steps(steps_until_read());
    }
  }

  std::optional<Evaluation> evaluate() {
    const AverageInPlace average(model_, state_.average);
    return engine_->evaluate([this] { return should_stop(); });
  }

  /// Steps that may be taken before somebody must look: until one whose update is measured, until
  /// callbacks may want the state, until the epoch ends.
  std::int64_t steps_until_read() const {
    const auto until_next = [this](std::int64_t period) { return period - state_.step % period; };
    auto steps = std::min(engine_->most_unread(), until_next(steps_per_epoch()));
    if (options_.state_every > 0) steps = std::min(steps, until_next(options_.state_every));
    const auto until_measured = until_next(options_.update_norm_every);
    return until_measured == 1 ? 1 : std::min(steps, until_measured - 1);
  }

  void take_steps(std::int64_t count) {
    const bool measure_update = (state_.step + 1) % options_.update_norm_every == 0;
    const auto before =
        measure_update ? copies_of_parameters(model_) : std::vector<torch::Tensor>{};
    const auto start = now();
    std::vector<double> rates;
    for (std::int64_t i = 0; i < count; ++i) {
      rates.push_back(optimizer_.param_groups().front().options().get_lr());
      engine_->take_step();
      if (average_) average_->update();
      scheduler_.step();
    }
    const auto readings = engine_->read();
    auto seconds = now() - start;
    for (const auto& reading : readings.steps) seconds -= reading.wait_seconds;
    if ((state_.step + count) % steps_per_epoch() == 0) {
      state_.second_moments = engine_->second_moments();
    }
    for (std::size_t i = 0; i < readings.steps.size(); ++i) {
      StepMetrics metrics;
      metrics.learning_rate = rates[i];
      metrics.seconds = seconds / static_cast<double>(count);
      if (measure_update) metrics.update_norm = distance(model_, before);
      count_step(readings.steps[i], metrics);
      for (auto* callback : callbacks_) callback->on_step(self_, metrics);
    }
    if (readings.rejection) std::rethrow_exception(readings.rejection);
  }

  void count_step(const StepReading& reading, StepMetrics& metrics) {
    const auto images = static_cast<double>(reading.images);
    metrics.step = state_.step + 1;
    metrics.epoch = state_.epoch;
    metrics.loss = reading.loss;
    metrics.top1 = static_cast<double>(reading.correct) / images;
    metrics.gradient_norm = reading.gradient_norm;
    metrics.wait_seconds = reading.wait_seconds;
    const auto seconds = metrics.seconds + metrics.wait_seconds;
    metrics.images_per_second = images / seconds;
    state_.step += 1;
    state_.batch += reading.batches;
    state_.seconds += seconds;
    state_.epoch_seconds += seconds;
    state_.loss_sum += reading.loss * images;
    state_.correct += reading.correct;
    state_.images += reading.images;
    const bool may_be_saved = options_.state_every > 0 && state_.step % options_.state_every == 0;
    if (variances_ && may_be_saved) state_.activation_totals = variances_->totals();
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
    next.average = std::move(state_.average);
    state_ = std::move(next);
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
  std::optional<WeightAverage> average_;  // in state_.average
  std::unique_ptr<StepEngine> engine_;    // last: what it captured refers to the others
};

Trainer::Trainer(Model& model, torch::optim::Optimizer& optimizer, Loader& train_data,
                 Loader& test_data, TrainerOptions options)
    : impl_(std::make_unique<Impl>(*this, model, optimizer, train_data, test_data,
                                   std::move(options))) {}
Trainer::~Trainer() = default;
void Trainer::add_callback(TrainingCallback& callback) { impl_->add_callback(callback); }
bool Trainer::run() { return impl_->run(); }
std::string Trainer::obstacle_to_graph(const torch::optim::Optimizer& optimizer,
                                       const Loader& train_data, const TrainerOptions& options) {
  if (!options.device.is_cuda()) return "the device is no GPU";
  if (!options.ranks->can_be_captured()) {
    return "the ranks' sums go through the host's memory: they share a GPU, or the build has no "
           "NCCL";
  }
  // Ranks without an image would have to catch up with the generator within a step.
  const auto& data = train_data.options();
  if (options.accumulation > 1 && has_empty_part(data.batch_size, data.parts, data.mix.any())) {
    return "several batches make a step, and none of them has an image for every rank";
  }
  return obstacle_to_graph_engine(optimizer);
}
const Model& Trainer::model() const noexcept { return impl_->model(); }
const Loader& Trainer::train_data() const noexcept { return impl_->train_data(); }
const Loader& Trainer::test_data() const noexcept { return impl_->test_data(); }
std::int64_t Trainer::steps_per_epoch() const { return impl_->steps_per_epoch(); }
std::int64_t Trainer::steps() const { return impl_->steps(); }
std::int64_t Trainer::steps_per_epoch(const Loader& train_data, std::int64_t accumulation) {
  return (train_data.batches_per_epoch() + accumulation - 1) / accumulation;
}
const TrainerState& Trainer::state() const noexcept { return impl_->state(); }
bool Trainer::finished() const { return impl_->finished(); }
void Trainer::set_state(const TrainerState& state) { impl_->set_state(state); }
std::string Trainer::problem_with(const TrainerState& state) const {
  return impl_->problem_with(state);
}

}  // namespace adaact
