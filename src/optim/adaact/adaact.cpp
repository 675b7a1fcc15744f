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

#include <adaact/optim/adaact.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "optim/adaact/adaact_internals.h"
#include "optim/adaact/adaact_state.h"
#include "optim/adaact/adaact_update.h"
#include "optim/adaact/full_covariance.h"
#include "optim/adaact/row_moments.h"
#include "optim/base/param_state.h"

namespace adaact {
namespace {

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
      m.narrow(0, row, rows).mul_(step.beta1).add_(g_rows, 1.0 - step.beta1);
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

bool AdaAct::takes_complex(const torch::optim::OptimizerOptions& options) const {
  return static_cast<const AdaActOptions&>(options).unobserved_rule() ==
         UnobservedRule::PlainGradient;
}

void AdaAct::on_groups_indexed() {
  auto& self = *internals_;
  const auto count = model().parameters().size();
  std::vector<InputMeasure::Layer> layers(count);
  self.joint_biases.assign(count, LayerMap::kNotFound);
  for (const auto index : managed()) {
    auto& layer = layers[index];
    layer.managed = true;
    layer.full = options_of(index).covariance() == Covariance::Full;
    if (!layer.full) continue;
    self.joint_biases[index] = joint_bias(index);
    layer.with_bias = self.joint_biases[index] != LayerMap::kNotFound;
  }
  self.measure->set_layers(std::move(layers));
  forget_moments_of_another_shape();
}

void AdaAct::forget_moments_of_another_shape() {
  for (const auto index : managed()) {
    const auto& tensor = parameter(index).tensor;
    const auto* known = find_state(index);
    if (known == nullptr || !known->moments().ema.defined()) continue;
    const auto& ema = known->moments().ema;
    const auto layer = internals_->measure->layer_of(index);
    const auto width = tensor.numel() / tensor.size(0) + (layer.with_bias ? 1 : 0);
    if ((ema.dim() == 3) == layer.full && ema.size(-1) == width) continue;
    auto& state = state_of(index);
    state.moments(RowMoments{});
    state.preconditioner(torch::Tensor());
  }
}

const AdaActOptions& AdaAct::options_of(std::size_t index) const {
  return static_cast<const AdaActOptions&>(group_options(index));
}

AdaActParamState& AdaAct::state_of(std::size_t index) {
  return get_or_make_param_state<AdaActParamState>(state_, parameter(index).tensor);
}

const AdaActParamState* AdaAct::find_state(std::size_t index) const {
  return find_param_state<AdaActParamState>(state_, parameter(index).tensor);
}

void AdaAct::take_observations() { internals_->pending = internals_->accumulator->take(); }
std::function<void()> AdaAct::take_for_replay() {
  const auto accumulator = internals_->accumulator;
  return [accumulator, pending = accumulator->take()] { accumulator->give(pending); };
}
void AdaAct::drop_observations() {
  internals_->accumulator->discard();
  internals_->pending.clear();
}

std::vector<NamedOptimizer::Checked> AdaAct::checked() const {
  std::vector<Checked> sums;
  for (const auto& observed : internals_->pending) {
    if (!observed.moment.sum.defined()) continue;
    sums.emplace_back(observed.moment.sum, "the input of the layer with weight '" +
                                               parameter(observed.weight).name + "' is not finite");
  }
  return sums;
}

void AdaAct::update() {
  update_moments();
  update_parameters();
}

void AdaAct::update_moments() {
  const auto pending = std::exchange(internals_->pending, {});
  std::map<std::size_t, std::vector<const PendingMoment*>> by_weight;
  std::set<std::size_t> biases;
  for (const auto& observed : pending) {
    if (internals_->measure->would_give(observed)) by_weight[observed.weight].push_back(&observed);
    const auto& named = parameter(observed.weight).biases;
    biases.insert(named.begin(), named.end());
    biases.insert(observed.biases.begin(), observed.biases.end());
  }
  // All new values first, then all changes: whatever fails here leaves every layer as it was.
  struct Change {
    AdaActParamState* state;
    RowMoments moments;
    torch::Tensor preconditioner;
  };
  std::vector<Change> changes;
  for (const auto& [weight, observed] : by_weight) {
    if (!is_managed(weight)) continue;
    const auto& options = options_of(weight);
    auto& state = state_of(weight);
    Change change{&state, state.moments(), state.preconditioner()};
    auto& ema = change.moments.ema;
    if (ema.defined()) {
      ema = ema.to(observed[0]->moment.sum.options(), /*non_blocking=*/false, /*copy=*/true);
    }
    const auto [clip_low, clip_high] = options.clip_range();
    update_row_moments(change.moments, observed, std::get<1>(options.betas()), clip_low, clip_high);
    if (options.covariance() == Covariance::Full) {
      change.preconditioner =
          refreshed_preconditioner(change.preconditioner, change.moments, options);
    }
    changes.push_back(std::move(change));
  }
  for (auto& change : changes) {
    change.state->moments(std::move(change.moments));
    auto& known = change.state->preconditioner();
    known = in_place_of(known, change.preconditioner);
  }
  for (const auto bias : biases) {
    if (!is_managed(bias)) continue;
    auto& segments = state_of(bias).moments().segments;
    if (segments.empty()) segments.push_back({0, parameter(bias).tensor.numel(), 0});
    ++segments.front().observations;
  }
}

void AdaAct::update_parameters() {
  const auto indices = trained();
  std::vector<FullWeight> full;
  std::set<std::size_t> done;  // with the full covariance a bias goes with its weight
  for (const auto weight : indices) {
    if (!has_full_covariance(weight)) continue;
    const auto bias = internals_->joint_biases[weight];
    const bool with_bias = bias != LayerMap::kNotFound && is_trained(bias);
    full.push_back({weight, with_bias ? bias : LayerMap::kNotFound});
    done.insert(weight);
    if (with_bias) done.insert(bias);
  }
  if (!full.empty()) update_with_full_covariance(full);

  std::map<std::int64_t, std::vector<std::size_t>> plain;  // by group
  for (const auto index : indices) {
    if (done.count(index) != 0) continue;
    if (takes_plain_gradient(index)) {
      plain[group_of(index)].push_back(index);
    } else {
      update_parameter(index);
    }
  }
  for (const auto& [group, parameters] : plain) update_by_plain_gradient(parameters);
}

bool AdaAct::takes_plain_gradient(std::size_t index) const {
  const auto* known = find_state(index);
  const bool observed = known != nullptr && !known->moments().segments.empty();
  return !observed && options_of(index).unobserved_rule() == UnobservedRule::PlainGradient;
}

/// Parameters of one group: on a GPU in a launch for all instead of one for each.
void AdaAct::update_by_plain_gradient(const std::vector<std::size_t>& parameters) {
  std::vector<torch::Tensor> theta;
  theta.reserve(parameters.size());
  for (const auto index : parameters) theta.push_back(parameter(index).tensor.detach());
  plain_gradient_update(theta, gradients(parameters), scalars_of(options_of(parameters[0]), 1));
}

void AdaAct::update_parameter(std::size_t index) {
  const auto& tensor = parameter(index).tensor;
  const auto& options = options_of(index);
  auto& state = state_of(index);
  const bool observed = !state.moments().segments.empty();
  auto& v = state.moments().ema;
  if (v.defined()) v = following(v, tensor);
  const bool has_features = observed && v.defined();
  const auto rows = has_features ? tensor.size(0) : 1;
  prepare_buffer(state.exp_avg(), tensor);
  state.step(state.step() + 1);
  auto [theta, m, g] = matrices_of(tensor, state, rows);
  const auto step = scalars_of(options, state.step());
  if (!has_features) {
    adaact_update(theta.matrix(), m, g, constant_denominator(g.size(1), options, m), step);
  } else {
    update_observed_rows(theta.matrix(), m, g, state.moments(), options, step);
  }
  theta.finish();
}

std::string AdaAct::why_observed(std::size_t index) const {
  const auto* state = find_state(index);
  if (state == nullptr || state->moments().segments.empty()) return {};
  return state->moments().ema.defined() ? "weight of an observed layer"
                                        : "bias of an observed layer";
}

torch::Tensor AdaAct::second_moment(const torch::Tensor& weight) const {
  const auto index = model().find(weight);
  TORCH_CHECK(index != LayerMap::kNotFound && is_managed(index),
              "AdaAct: second_moment() was given a tensor that is none of its parameters");
  const auto* state = find_state(index);
  if (state == nullptr || !state->moments().ema.defined()) return {};
  return unbiased(state->moments(), std::get<1>(options_of(index).betas()));
}

}  // namespace adaact
