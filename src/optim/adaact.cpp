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

#include <ATen/core/grad_mode.h>

#include "optim/adaact_full.h"
#include "optim/adaact_internals.h"
#include "optim/adaact_update.h"
#include "optim/param_state.h"
#include "optim/row_moments.h"

namespace adaact {
namespace {

/// The denominator of an input that is always 1, like a bias's.
torch::Tensor constant_denominator(std::int64_t columns, const AdaActOptions& options,
                                   const torch::Tensor& m) {
  const auto [clip_low, clip_high] = options.clip_range();
  const auto v_hat = torch::full({1, columns}, std::clamp(1.0, clip_low, clip_high), m.options());
  return adaact_denominator(v_hat, options.power(), options.eps());
}

bool cover_all_rows_evenly(const std::vector<RowSegment>& segments, std::int64_t rows) {
  const auto& first = segments.front();
  std::int64_t expected = 0;
  for (const auto& segment : segments) {
    if (segment.begin != expected || segment.end - segment.begin != first.end - first.begin ||
        segment.observations != first.observations) {
      return false;
    }
    expected = segment.end;
  }
  return expected == rows;
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
      plain_gradient_update(theta_rows, g_rows, step);
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

/// A bias that can be the last column of this weight: one number per row.
std::size_t joint_bias(const LayerMap& map, std::size_t weight,
                       const std::vector<InputMeasure::Layer>& layers) {
  const auto& parameter = map.parameters()[weight];
  for (const auto bias : parameter.biases) {
    const auto& tensor = map.parameters()[bias].tensor;
    if (layers[bias].managed && tensor.requires_grad() &&
        tensor.numel() == parameter.tensor.size(0)) {
      return bias;
    }
  }
  return LayerMap::kNotFound;
}

}  // namespace

AdaAct::AdaAct(torch::nn::Module& module, const AdaActOptions& defaults)
    : AdaAct(LayerMap(module), {}, defaults) {}

AdaAct::AdaAct(torch::nn::Module& module,
               std::vector<torch::optim::OptimizerParamGroup> param_groups,
               const AdaActOptions& defaults)
    : AdaAct(LayerMap(module), std::move(param_groups), defaults) {}

AdaAct::AdaAct(const NamedTensors& named_parameters, const AdaActOptions& defaults)
    : AdaAct(LayerMap(named_parameters), {}, defaults) {}

AdaAct::AdaAct(const NamedTensors& named_parameters,
               std::vector<torch::optim::OptimizerParamGroup> param_groups,
               const AdaActOptions& defaults)
    : AdaAct(LayerMap(named_parameters), std::move(param_groups), defaults) {}

AdaAct::AdaAct(LayerMap map, std::vector<torch::optim::OptimizerParamGroup> param_groups,
               const AdaActOptions& defaults)
    : Optimizer(std::vector<torch::optim::OptimizerParamGroup>{},
                std::make_unique<AdaActOptions>(defaults)) {
  defaults.validate();
  TORCH_CHECK(!map.parameters().empty(), "AdaAct: the model has no parameters");
  if (param_groups.empty()) {
    std::vector<torch::Tensor> all;
    for (const auto& parameter : map.parameters()) all.push_back(parameter.tensor);
    param_groups.emplace_back(std::move(all));
  }
  auto measure = std::make_shared<InputMeasure>(map);
  internals_ = std::make_unique<Internals>(std::move(map), std::move(measure));
  for (const auto& group : param_groups) add_param_group(group);
}

AdaAct::AdaAct(AdaAct&& other) noexcept = default;
AdaAct::~AdaAct() = default;

void AdaAct::add_param_group(const torch::optim::OptimizerParamGroup& param_group) {
  Optimizer::add_param_group(param_group);
  try {
    index_parameters();
  } catch (...) {
    param_groups_.pop_back();
    throw;
  }
}

void AdaAct::index_parameters() {
  auto& self = *internals_;
  const auto& map = self.map();
  std::vector<Internals::Group> groups;
  std::vector<std::size_t> group_of(map.parameters().size(), LayerMap::kNotFound);
  std::vector<InputMeasure::Layer> layers(map.parameters().size());
  for (const auto& group : param_groups_) {
    const auto* options = dynamic_cast<const AdaActOptions*>(&group.options());
    TORCH_CHECK(options != nullptr,
                "AdaAct: the options of a parameter group are not AdaActOptions");
    options->validate();
    TORCH_CHECK(options->non_finite_policy() == options_of(param_groups_[0]).non_finite_policy(),
                "AdaAct: non_finite_policy differs between parameter groups; a step is rejected as "
                "a whole, so it must be the same in all");
    auto& known = groups.emplace_back();
    known.listed = group.params().size();
    known.covariance = options->covariance();
    for (const auto& parameter : group.params()) {
      const auto index = map.find(parameter);
      TORCH_CHECK(index != LayerMap::kNotFound, "AdaAct: a parameter of shape ", parameter.sizes(),
                  " in a group is no parameter of the model");
      if (group_of[index] != LayerMap::kNotFound) continue;  // tied, and listed under each name
      known.indices.push_back(index);
      group_of[index] = groups.size() - 1;
      layers[index].managed = true;
      layers[index].full = options->covariance() == Covariance::Full;
    }
  }
  self.joint_biases.assign(map.parameters().size(), LayerMap::kNotFound);
  for (std::size_t weight = 0; weight < layers.size(); ++weight) {
    if (!layers[weight].full) continue;
    self.joint_biases[weight] = joint_bias(map, weight, layers);
    layers[weight].with_bias = self.joint_biases[weight] != LayerMap::kNotFound;
  }
  self.groups = std::move(groups);
  self.group_of = std::move(group_of);
  self.measure->set_layers(std::move(layers));
  forget_moments_of_another_shape();
}

void AdaAct::forget_moments_of_another_shape() {
  const auto& self = *internals_;
  for (std::size_t index = 0; index < self.map().parameters().size(); ++index) {
    const auto& parameter = self.parameter(index).tensor;
    const auto* known = find_state(parameter);
    if (known == nullptr || !known->moments().ema.defined()) continue;
    const auto& ema = known->moments().ema;
    const auto layer = self.measure->layer_of(index);
    const auto width = parameter.numel() / parameter.size(0) + (layer.with_bias ? 1 : 0);
    if ((ema.dim() == 3) == layer.full && ema.size(-1) == width) continue;
    auto& state = state_of(parameter);
    state.moments(RowMoments{});
    state.preconditioner(torch::Tensor());
  }
}

void AdaAct::index_new_parameters() {
  // add_param_group() and add_parameters() of the base class are not virtual, and options may have
  // been changed in place.
  const auto& groups = internals_->groups;
  const auto is_as_known = [](const Internals::Group& known, const auto& group) {
    const auto* options = dynamic_cast<const AdaActOptions*>(&group.options());
    return options != nullptr && known.covariance == options->covariance() &&
           known.listed == group.params().size();
  };
  if (!std::equal(groups.begin(), groups.end(), param_groups_.begin(), param_groups_.end(),
                  is_as_known)) {
    index_parameters();
  }
}

AdaActParamState& AdaAct::state_of(const torch::Tensor& parameter) {
  return get_or_make_param_state<AdaActParamState>(state_, parameter);
}

const AdaActParamState* AdaAct::find_state(const torch::Tensor& parameter) const {
  return find_param_state<AdaActParamState>(state_, parameter);
}

torch::Tensor AdaAct::step(LossClosure closure) {
  const torch::NoGradGuard no_grad;
  torch::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_grad(true);
    loss = closure();
  }
  auto& self = *internals_;
  const auto pending = self.accumulator->take();
  self.observer.rethrow_failure();
  index_new_parameters();
  check_gradients();
  if (const auto culprit = find_non_finite(pending); !culprit.empty()) {
    if (options_of(param_groups_[0]).non_finite_policy() == NonFinitePolicy::Throw) {
      throw NonFiniteError("AdaAct: " + culprit +
                           "; the step was rejected and nothing has changed");
    }
    ++self.skipped_steps;
    return loss;
  }
  update_moments(pending);
  update_parameters();
  if (!std::exchange(self.first_step_done, true)) warn_about_unseen_layers();
  return loss;
}

void AdaAct::check_gradients() const {
  for (const auto& group : internals_->groups) {
    for (const auto index : group.indices) {
      const auto& parameter = internals_->parameter(index);
      const auto& gradient = parameter.tensor.grad();
      TORCH_CHECK(!gradient.defined() || gradient.layout() == torch::kStrided,
                  "AdaAct: the gradient of '", parameter.name, "' is ", gradient.layout(),
                  ", expected a dense one");
    }
  }
}

std::string AdaAct::find_non_finite(const std::vector<PendingMoment>& pending) const {
  for (const auto& observed : pending) {
    if (observed.moment.sum.defined() && !all_finite(observed.moment.sum)) {
      return "the input of the layer with weight '" + internals_->parameter(observed.weight).name +
             "' is not finite";
    }
  }
  for (const auto& group : internals_->groups) {
    for (const auto index : group.indices) {
      const auto& parameter = internals_->parameter(index);
      const auto& gradient = parameter.tensor.grad();
      if (gradient.defined() && !all_finite(gradient)) {
        return "the gradient of '" + parameter.name + "' is not finite";
      }
    }
  }
  return {};
}

void AdaAct::update_moments(const std::vector<PendingMoment>& pending) {
  const auto& self = *internals_;
  std::map<std::size_t, std::vector<const PendingMoment*>> by_weight;
  std::set<std::size_t> biases;
  for (const auto& observed : pending) {
    if (self.measure->would_give(observed)) by_weight[observed.weight].push_back(&observed);
    const auto& named = self.parameter(observed.weight).biases;
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
    if (self.group_of[weight] == LayerMap::kNotFound) continue;
    const auto& options = options_of(param_groups_[self.group_of[weight]]);
    auto& state = state_of(self.parameter(weight).tensor);
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
    change.state->preconditioner(std::move(change.preconditioner));
  }
  for (const auto bias : biases) {
    if (self.group_of[bias] == LayerMap::kNotFound) continue;
    const auto& tensor = self.parameter(bias).tensor;
    auto& segments = state_of(tensor).moments().segments;
    if (segments.empty()) segments.push_back({0, tensor.numel(), 0});
    ++segments.front().observations;
  }
}

void AdaAct::update_parameters() {
  const auto& self = *internals_;
  const auto is_trained = [&self](std::size_t index) {
    const auto& tensor = self.parameter(index).tensor;  // 1.13 keeps the gradient of a frozen one
    return tensor.requires_grad() && tensor.grad().defined();
  };
  std::set<std::size_t> done;  // with the full covariance a bias goes with its weight
  for (const auto& group : self.groups) {
    for (const auto weight : group.indices) {
      if (!has_full_covariance(weight) || !is_trained(weight)) continue;
      const auto bias = self.joint_biases[weight];
      const bool with_bias = bias != LayerMap::kNotFound && is_trained(bias);
      update_with_full_covariance(weight, with_bias);
      done.insert(weight);
      if (with_bias) done.insert(bias);
    }
  }
  for (const auto& group : self.groups) {
    for (const auto index : group.indices) {
      if (done.count(index) == 0 && is_trained(index)) update_parameter(index);
    }
  }
}

void AdaAct::update_parameter(std::size_t index) {
  const auto& self = *internals_;
  const auto& parameter = self.parameter(index).tensor;
  const auto& options = options_of(param_groups_[self.group_of[index]]);
  const auto* known = find_state(parameter);
  const bool observed = known != nullptr && !known->moments().segments.empty();
  if (!observed && options.unobserved_rule() == UnobservedRule::PlainGradient) {
    plain_gradient_update(parameter.detach(), parameter.grad(), scalars_of(options, 1));
    return;
  }

  auto& state = state_of(parameter);
  auto& v = state.moments().ema;
  if (v.defined()) v = following(v, parameter);
  const bool has_features = observed && v.defined();
  const auto rows = has_features ? parameter.size(0) : 1;
  auto [theta, m, g] = begin_update(parameter, state, rows);
  const auto step = scalars_of(options, state.step());
  if (!has_features) {
    adaact_update(theta.matrix(), m, g, constant_denominator(g.size(1), options, m), step);
  } else {
    update_observed_rows(theta.matrix(), m, g, state.moments(), options, step);
  }
  theta.finish();
}

std::int64_t AdaAct::skipped_steps() const noexcept { return internals_->skipped_steps; }

ObservationPause AdaAct::pause_observation() const { return internals_->observer.pause(); }

void AdaAct::discard_observations() {
  internals_->accumulator->discard();
  internals_->observer.discard_failure();
}

void AdaAct::observe(const torch::Tensor& weight, const torch::Tensor& input,
                     const Geometry& geometry) {
  internals_->observer.observe(weight, input, geometry);
}

torch::Tensor AdaAct::second_moment(const torch::Tensor& weight) const {
  const auto index = internals_->map().find(weight);
  TORCH_CHECK(index != LayerMap::kNotFound && internals_->group_of[index] != LayerMap::kNotFound,
              "AdaAct: second_moment() was given a tensor that is none of its parameters");
  const auto* state = find_state(weight);
  if (state == nullptr || !state->moments().ema.defined()) return {};
  const auto beta2 = std::get<1>(options_of(param_groups_[internals_->group_of[index]]).betas());
  return unbiased(state->moments(), beta2);
}

}  // namespace adaact
