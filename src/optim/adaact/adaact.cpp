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
// plan.cpp says what happens to which parameter, update.cpp has the equations for tensors and the CPU,
// update_cuda.cu those for a GPU, full_covariance.cpp those with A_t.

#include <adaact/optim/adaact.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "optim/adaact/apply_on_gpu.h"
#include "optim/adaact/codec.h"
#include "optim/adaact/full_covariance.h"
#include "optim/adaact/input_measure.h"
#include "optim/adaact/plan.h"
#include "optim/adaact/update.h"
#include "optim/base/param_state.h"
#include "optim/base/step_parts.h"

namespace adaact {

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
  std::vector<Counted> counted;  // of the last step
};

namespace {

struct ObservedInputs : StepStatistics {
  std::vector<PendingMoment> moments;
};

AdaActScalars scalars_of(const AdaActOptions& options, std::int64_t updates_of_m) {
  const auto beta1 = std::get<0>(options.betas());
  return {options.lr(), beta1, options.weight_decay(), bias_correction(beta1, updates_of_m)};
}

/// The denominator of an input that is always 1, like a bias's.
torch::Tensor constant_denominator(std::int64_t columns, const AdaActOptions& options,
                                   const torch::Tensor& m) {
  const auto [clip_low, clip_high] = options.clip_range();
  const auto v_hat = torch::full({1, columns}, std::clamp(1.0, clip_low, clip_high), m.options());
  return adaact_denominator(v_hat, options.power(), options.eps());
}

/// Each segment with its own denominator; rows outside every segment follow the rule for
/// unobserved parameters, but their M has moved with the others'.
void update_observed_rows(const torch::Tensor& theta, const torch::Tensor& m,
                          const torch::Tensor& g, const RowMoments& moments,
                          const AdaActOptions& options, const AdaActScalars& step) {
  const auto& segments = moments.segments;
  const auto beta2 = std::get<1>(options.betas());
  const auto denominator =
      adaact_denominator(unbiased(moments, beta2).flatten(1), options.power(), options.eps());
  if (cover_all_rows_evenly(segments, theta.size(0))) {
    adaact_update(theta, m, g, denominator, step);
    return;
  }
  std::int64_t row = 0;
  const auto update_gap = [&](std::int64_t end) {
    if (row == end) return;
    const auto rows = end - row;
    const auto theta_rows = theta.narrow(0, row, rows);
    const auto g_rows = g.narrow(0, row, rows);
    if (options.unobserved_rule() == UnobservedRule::PlainGradient) {
      average_gradient(m.narrow(0, row, rows), g_rows, step.beta1);
      plain_gradient_update({theta_rows}, {g_rows}, step);
    } else {
      adaact_update(theta_rows, m.narrow(0, row, rows), g_rows,
                    constant_denominator(denominator.size(1), options, m), step);
    }
  };
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const auto& segment = segments[s];
    update_gap(segment.begin);
    const auto rows = segment.end - segment.begin;
    adaact_update(theta.narrow(0, segment.begin, rows), m.narrow(0, segment.begin, rows),
                  g.narrow(0, segment.begin, rows),
                  denominator.narrow(0, static_cast<std::int64_t>(s), 1), step);
    row = segment.end;
  }
  update_gap(theta.size(0));
}

/// V_t of the layers that were observed: all new values first, then all changes, so that what fails leaves
/// every layer as it was.
void move_second_moments(const std::vector<PlannedUpdate>& plan) {
  std::vector<std::pair<AdaActParamState*, RowMoments>> moved;
  for (const auto& planned : plan) {
    if (!planned.moves_v()) continue;
    const auto& options = *planned.of.options;
    auto moments = planned.state->moments();
    if (moments.ema.defined()) moments.ema = moments.ema.clone();
    const auto [clip_low, clip_high] = options.clip_range();
    update_row_moments(moments, planned.seen, std::get<1>(options.betas()), clip_low, clip_high);
    moved.emplace_back(planned.state, std::move(moments));
  }
  for (auto& [state, moments] : moved) state->moments(std::move(moments));
}

void update_parameter(const PlannedUpdate& planned) {
  const auto& options = *planned.of.options;
  auto& state = *planned.state;
  const bool is_scaled = planned.rule == Rule::ScaledByInput;
  prepare_buffer(state.exp_avg(), planned.theta);
  auto [theta, m, g] = matrices_of(planned.theta, state, is_scaled ? planned.theta.size(0) : 1);
  const auto step = scalars_of(options, state.step() + 1);
  if (is_scaled) {
    auto& v = state.moments().ema;
    v = following(v, planned.theta);
    update_observed_rows(theta.matrix(), m, g, state.moments(), options, step);
  } else {
    adaact_update(theta.matrix(), m, g, constant_denominator(g.size(1), options, m), step);
  }
  theta.finish();
}

/// All of a group at once: on a GPU in a launch for all instead of one for each.
void update_by_plain_gradient(const std::vector<PlannedUpdate>& plan) {
  struct Group {
    std::vector<torch::Tensor> theta;
    std::vector<torch::Tensor> g;
    AdaActScalars step;
  };
  std::map<std::int64_t, Group> groups;
  for (const auto& planned : plan) {
    if (planned.rule != Rule::PlainGradient) continue;
    auto& group = groups[planned.of.group];
    group.theta.push_back(planned.theta.detach());
    group.g.push_back(planned.theta.grad());
    group.step = scalars_of(*planned.of.options, 1);
  }
  for (const auto& [number, group] : groups)
    plain_gradient_update(group.theta, group.g, group.step);
}

/// On any device, one parameter after the other.
void apply_plainly(const std::vector<PlannedUpdate>& plan) {
  move_second_moments(plan);
  for (const auto& planned : plan) {
    const bool alone = planned.rule == Rule::ScaledByInput || planned.rule == Rule::ConstantInput;
    if (alone) update_parameter(planned);
  }
  update_by_plain_gradient(plan);
}

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
  auto inputs = std::make_shared<ObservedInputs>();
  inputs->moments = internals_->accumulator->take();
  rethrow_failed_observation();
  for (const auto& observed : inputs->moments) {
    if (!observed.moment.sum.defined()) continue;
    inputs->checked.push_back(
        {observed.moment.sum, "the input of the layer with weight", observed.weight});
  }
  return inputs;
}

/// What happens to whom, with room for the state of those that need it.
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
  FullCovariance::move_covariances(self.plan);
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
    apply_on_gpu(self.plan, *on_gpu, numbers.step);
  } else {
    step_parts().check_seen_by_host("parameters on one GPU and layers that are used whole");
    apply_plainly(self.plan);
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
}

void AdaAct::clear_observations() { internals_->accumulator->discard(); }

bool AdaAct::takes_complex(const torch::optim::OptimizerOptions& options) const {
  return static_cast<const AdaActOptions&>(options).unobserved_rule() ==
         UnobservedRule::PlainGradient;
}

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
    layer.with_bias = layer.full && joint_bias(index);
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
