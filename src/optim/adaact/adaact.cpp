// Symbols of the paper and where they live:
//
//   θ   (rows, n)  a layer's weight, one row per output; its bias is one more column
//   ã   (n+1)      a layer's input with a last entry that is always 1
//   Ã_t (S, n)     mean of ã² over the samples (and positions) of a step     MomentAccumulator
//   V_t (S, n)     its moving average; S > 1 for groups and packed weights   AdaActParamState::moments
//   M_t (rows, n)  moving average of the gradient G_t                        AdaActParamState::exp_avg
//   Ĝ_t (rows, n)  M̂_t / (V̂_t^p + ε)                                         adaact_update
//
// With the full covariance, A_t (S, n+1, n+1) takes the place of V_t.
//
// plan.cpp says what happens to which parameter. It is carried out by row_averages.cpp (V_t) and update.cpp
// (M_t, θ_t) on any device, by update_cuda.cu for a GPU, by full_covariance.cpp with A_t.

#include <adaact/optim/adaact.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "moments/accumulator.h"
#include "observe/observed_features.h"
#include "optim/adaact/codec.h"
#include "optim/adaact/full_covariance.h"
#include "optim/adaact/moments_of_ranks.h"
#include "optim/adaact/outsized.h"
#include "optim/adaact/plan.h"
#include "optim/adaact/row_averages.h"
#include "optim/adaact/update.h"
#include "optim/adaact/update_cuda.h"
#include "optim/base/param_state.h"
#include "optim/base/step_parts.h"

namespace adaact {

namespace {

/// Measures what it is told of each layer's input. Shared with the observer, which other threads may still
/// be using when the optimizer is gone.
class InputMeasure {
 public:
  explicit InputMeasure(const LayerMap& map)
      : parameters_(map.tensors()), layers_(parameters_.size()) {}

  void set_layers(std::vector<MeasuredLayer> layers) {
    const std::lock_guard<std::mutex> lock(mutex_);
    layers_ = std::move(layers);
  }
  MeasuredLayer layer_of(std::size_t weight) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return layers_[weight];
  }

  /// Whether the measure of this use is second_moment().
  bool is_diagonal(const LayerUse& use, const torch::Tensor& input) const {
    if (layer_of(use.weight).full || !is_measured(use, input)) return false;
    use.geometry.check(input);
    check_observed_features(parameters_[use.weight], use, use.geometry.features(input));
    return true;
  }

  Moment operator()(const LayerUse& use, const torch::Tensor& input) const {
    if (!is_measured(use, input)) return {};
    const auto layer = layer_of(use.weight);
    auto moment = layer.full ? covariance(input, use.geometry, layer.with_bias)
                             : second_moment(input, use.geometry);
    check_observed_features(parameters_[use.weight], use,
                            moment.sum.size(-1) - (layer.with_bias ? 1 : 0));
    return moment;
  }

 private:
  bool is_measured(const LayerUse& use, const torch::Tensor& input) const {
    const auto& weight = parameters_[use.weight];
    const bool measurable = weight.is_floating_point() && weight.numel() > 0 && input.numel() > 0;
    return layer_of(use.weight).managed && weight.requires_grad() && measurable;
  }

  const std::vector<torch::Tensor> parameters_;
  mutable std::mutex mutex_;
  std::vector<MeasuredLayer> layers_;
};

}  // namespace

struct AdaAct::Internals {
  explicit Internals(const LayerMap& model)
      : measure(std::make_shared<InputMeasure>(model)),
        accumulator(std::make_shared<MomentAccumulator>(
            model,
            [shared = measure](const LayerUse& use, const torch::Tensor& input) {
              return (*shared)(use, input);
            },
            [shared = measure](const LayerUse& use, const torch::Tensor& input) {
              return shared->is_diagonal(use, input);
            })) {}

  std::shared_ptr<InputMeasure> measure;
  std::shared_ptr<MomentAccumulator> accumulator;
  std::vector<PlannedUpdate> plan;  // of the step under way
  FullCovariance full;

  /// What settle() counts for a parameter.
  struct Counted {
    std::size_t parameter;
    bool update_of_m;
    bool observation;
  };
  std::vector<Counted> counted;         // of the last step
  std::optional<std::size_t> outsized;  // a parameter that this step changed out of proportion
  bool has_warned = false;              // of one
};

namespace {

struct ObservedInputs : StepStatistics {
  std::vector<PendingMoment> moments;
};

}  // namespace

AdaAct::AdaAct(LayerMap model, const AdaActOptions& defaults)
    : AdaAct(std::move(model), {}, defaults) {}

AdaAct::AdaAct(LayerMap its_model, std::vector<torch::optim::OptimizerParamGroup> param_groups,
               const AdaActOptions& defaults)
    : ObservingOptimizer(std::move(its_model), std::make_unique<AdaActOptions>(defaults),
                         AdaActCodec::instance()),
      internals_(std::make_unique<Internals>(model())) {
  start_observing(internals_->accumulator);
  add_param_groups(std::move(param_groups));
}

AdaAct::AdaAct(AdaAct&& other) noexcept = default;
AdaAct::~AdaAct() = default;

std::shared_ptr<const StepStatistics> AdaAct::measure() {
  const auto observe_on_this_rank = [this] {
    auto moments = internals_->accumulator->take();
    rethrow_failed_observation();
    for (const auto& observed : moments) {
      check_observed_shape(parameter(observed.weight), observed.row_end);
    }
    return moments;
  };
  auto inputs = std::make_shared<ObservedInputs>();
  inputs->moments = shared_sums() == nullptr
                        ? observe_on_this_rank()
                        : moments_of_ranks(*shared_sums(), observe_on_this_rank);
  for (const auto& observed : inputs->moments) {
    if (!observed.moment.sum.defined()) continue;
    inputs->checked.push_back({observed.moment.sum, kMomentOfInput, observed.weight});
  }
  return inputs;
}

/// Plans what happens to which parameter, and makes state for those that need it.
void AdaAct::prepare_plan(const StepStatistics& statistics) {
  auto& self = *internals_;
  std::vector<KnownParameter> known;
  for (const auto index : managed()) {
    const auto layer = self.measure->layer_of(index);
    known.push_back({index, group_of(index), &options_of(index), find_state(index), layer,
                     layer.with_bias ? joint_bias(index) : std::nullopt, is_trained(index)});
  }
  self.plan = plan_step(model(), known, static_cast<const ObservedInputs&>(statistics).moments);
  for (auto& planned : self.plan) {
    if (!planned.needs_state()) continue;
    planned.state = &get_or_make_param_state<AdaActParamState>(state_, planned.theta);
  }
}

void AdaAct::decide(const StepStatistics& statistics) {
  if (step_parts().host_work() == HostWork::Nothing) return;
  auto& self = *internals_;
  prepare_plan(statistics);
  self.full.prepare(self.plan);
  FullCovariance::move_covariances(self.plan, shared_factors());
  auto memory = self.full.memory(self.plan);
  const auto on_gpu = describe_for_gpu(self.plan, step_parts().numbers().counted);
  if (on_gpu) {
    for (const auto& update : *on_gpu) {
      const auto& tensors = update.tensors;
      for (const auto& used : {tensors.theta, tensors.m, tensors.v}) {
        memory.push_back(memory_of(used));
      }
    }
  } else {
    step_parts().changes_with_every_step();  // its learning rates and counts are the host's
  }
  step_parts().works_on(std::move(memory));
  count_in_settle(on_gpu.has_value());
}

void AdaAct::apply(const StepStatistics& statistics) {
  auto& self = *internals_;
  const auto numbers = step_parts().numbers();
  if (step_parts().host_work() == HostWork::Nothing) prepare_plan(statistics);
  const auto on_gpu = describe_for_gpu(self.plan, numbers.counted);
  self.full.apply(self.plan);
  if (on_gpu) {
    apply_on_gpu(self.plan, *on_gpu, numbers.step, step_parts().outsized());
  } else {
    step_parts().check_seen_by_host("parameters on one GPU and layers that are used whole");
    self.outsized = apply_plainly(self.plan);
  }
  count_in_settle(on_gpu.has_value());
  self.plan.clear();
}

/// Off the GPU V counts its observations where it moves.
void AdaAct::count_in_settle(bool v_moves_on_gpu) {
  auto& counted = internals_->counted;
  counted.clear();
  for (const auto& planned : internals_->plan) {
    const bool observation = planned.has_used_layer || (v_moves_on_gpu && planned.moves_v());
    if (!planned.has_m() && !observation) continue;
    counted.push_back({planned.of.index, planned.has_m(), observation});
  }
}

void AdaAct::on_outsized_change(std::size_t index) {
  if (std::exchange(internals_->has_warned, true)) return;
  TORCH_WARN("AdaAct: a step has changed an element of '", parameter(index).name, "' by more than ",
             kOutsized,
             " (1 + |θ|). A gradient that does not come through the layer's input (a "
             "penalty in the loss, a weight shared with an embedding) is divided by eps where that "
             "input is always 0. Use weight_decay instead of a penalty, or give clip_range a lower "
             "end, such as 1e-4, below which no second moment falls.");
}

void AdaAct::settle(std::int64_t steps) {
  for (const auto& each : internals_->counted) {
    const auto& tensor = parameter(each.parameter).tensor;
    auto& state = get_or_make_param_state<AdaActParamState>(state_, tensor);
    if (each.update_of_m) state.step(state.step() + steps);
    if (!each.observation) continue;
    auto& segments = state.moments().segments;
    if (segments.empty()) segments.push_back({0, tensor.numel(), 0});  // a bias's: its input is 1
    for (auto& segment : segments) segment.observations += steps;
  }
  ObservingOptimizer::settle(steps);
  // This comes last, so that whoever makes errors of warnings finds the step taken.
  if (const auto outsized = std::exchange(internals_->outsized, {})) on_outsized_change(*outsized);
}

void AdaAct::add_observed(const torch::Tensor& weight, const Moment& moment, std::int64_t row_begin,
                          std::int64_t row_end) {
  const auto index = model().find(weight);
  TORCH_CHECK(index && is_managed(*index),
              "AdaAct: add_observed() was given a tensor that is none of its parameters");
  const auto& name = parameter(*index).name;
  TORCH_CHECK(options_of(*index).covariance() == Covariance::Diagonal,
              "AdaAct: add_observed() was given squares for '", name,
              "', whose covariance is full, expected diagonal");
  LayerUse use;
  use.weight = *index;
  use.row_begin = row_begin;
  use.row_end = row_end == -1 ? weight.size(0) : row_end;
  TORCH_CHECK(moment.sum.dim() == 2 && moment.count > 0, "AdaAct: add_observed() was given for '",
              name, "' a sum of shape ", moment.sum.sizes(), " of ", moment.count,
              " rows, expected two dimensions and more than 0 rows");
  check_observed_features(weight, use, moment.sum.size(-1));
  // The layer of a frozen weight was used, which its bias follows.
  internals_->accumulator->add(use, weight.requires_grad() ? moment : Moment{});
}

void AdaAct::clear_observations() { internals_->accumulator->discard(); }

void AdaAct::on_groups_indexed() {
  const bool is_diagonal =
      std::all_of(param_groups_.begin(), param_groups_.end(), [](const auto& group) {
        return static_cast<const AdaActOptions&>(group.options()).covariance() ==
               Covariance::Diagonal;
      });
  step_parts().set_host_work(is_diagonal ? HostWork::Nothing : HostWork::Decides);
  std::vector<MeasuredLayer> layers(model().parameters().size());
  for (const auto index : managed()) {
    auto& layer = layers[index];
    layer.managed = true;
    layer.full = options_of(index).covariance() == Covariance::Full;
    // The bias counts whether it is trained or not: it may be frozen and freed again.
    layer.with_bias = layer.full && has_fitting_bias(index);
  }
  internals_->measure->set_layers(layers);
  for (const auto index : managed()) forget_moments_unless(index, layers[index]);
}

/// Moments of another kind than those that are measured now start anew.
void AdaAct::forget_moments_unless(std::size_t index, const MeasuredLayer& layer) {
  const auto& tensor = parameter(index).tensor;
  const auto* known = find_state(index);
  if (known == nullptr || !known->moments().ema.defined()) return;
  if (layer.would_give(known->moments().ema, tensor)) return;
  auto& state = get_or_make_param_state<AdaActParamState>(state_, tensor);
  state.moments(RowMoments{});
  state.preconditioner(torch::Tensor());
}

const AdaActOptions& AdaAct::options_of(std::size_t index) const {
  return static_cast<const AdaActOptions&>(group_options(index));
}

const AdaActParamState* AdaAct::find_state(std::size_t index) const {
  return find_param_state<AdaActParamState>(state_, parameter(index).tensor);
}

std::string AdaAct::why_observed(std::size_t index) const {
  const auto* state = find_state(index);
  if (state == nullptr || state->moments().segments.empty()) return {};
  return state->moments().ema.defined() ? "weight of an observed layer"
                                        : "bias of an observed layer";
}

torch::Tensor AdaAct::second_moment(const torch::Tensor& weight) const {
  const auto index = model().find(weight);
  TORCH_CHECK(index && is_managed(*index),
              "AdaAct: second_moment() was given a tensor that is none of its parameters");
  const auto* state = find_state(*index);
  if (state == nullptr || !state->moments().ema.defined()) return {};
  return unbiased(state->moments(), std::get<1>(options_of(*index).betas()));
}

}  // namespace adaact
