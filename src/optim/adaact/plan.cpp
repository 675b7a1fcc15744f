#include "optim/adaact/plan.h"

namespace adaact {
namespace {

/// Where a parameter stands in the plan, by its place in the model; nothing where it is in no group.
using Places = std::vector<std::optional<std::size_t>>;

/// Notes whose V moves, and which biases count an observation.
void note_observations(const LayerMap& model, const std::vector<PendingMoment>& observed,
                       const Places& places, std::vector<PlannedUpdate>& plan) {
  const auto note_bias = [&](std::size_t bias) {
    if (places[bias]) plan[*places[bias]].has_used_layer = true;
  };
  for (const auto& pending : observed) {
    const auto& weight = model.parameters()[pending.weight];
    for (const auto bias : weight.biases) note_bias(bias);
    for (const auto bias : pending.biases) note_bias(bias);
    if (!places[pending.weight] || !pending.moment.sum.defined()) continue;
    // What was measured before groups or options changed may be of another kind.
    auto& planned = plan[*places[pending.weight]];
    if (planned.of.layer.would_give(pending.moment.sum, weight.tensor)) {
      planned.seen.push_back(&pending);
    }
  }
}

/// The rule for what has never had an input and is no bias.
Rule rule_of_unobserved(const AdaActOptions& options) {
  return options.unobserved_rule() == UnobservedRule::PlainGradient ? Rule::PlainGradient
                                                                    : Rule::ConstantInput;
}

Rule rule_of(const PlannedUpdate& planned) {
  if (!planned.of.is_trained) return Rule::None;
  const auto* state = planned.of.state;
  const bool has_v = !planned.seen.empty() || (state != nullptr && state->moments().ema.defined());
  if (has_v) return planned.is_full() ? Rule::FullCovariance : Rule::ScaledByInput;
  const bool is_bias =
      planned.has_used_layer || (state != nullptr && !state->moments().segments.empty());
  return is_bias ? Rule::ConstantInput : rule_of_unobserved(*planned.of.options);
}

}  // namespace

std::vector<PlannedUpdate> plan_step(const LayerMap& model,
                                     const std::vector<KnownParameter>& parameters,
                                     const std::vector<PendingMoment>& observed) {
  std::vector<PlannedUpdate> plan(parameters.size());
  Places places(model.parameters().size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    plan[i].of = parameters[i];
    plan[i].theta = model.parameters()[parameters[i].index].tensor;
    places[parameters[i].index] = i;
  }
  note_observations(model, observed, places, plan);
  for (auto& planned : plan) {
    planned.rule = rule_of(planned);
    planned.rule_of_gaps = rule_of_unobserved(*planned.of.options);
  }
  for (auto& planned : plan) {
    if (planned.rule != Rule::FullCovariance || !planned.of.joint_bias) continue;
    const auto place = *places[*planned.of.joint_bias];
    auto& bias = plan[place];
    if (!bias.of.is_trained || bias.rule == Rule::ColumnOfWeight) continue;  // the latter: shared
    bias.rule = Rule::ColumnOfWeight;
    planned.column = place;
  }
  return plan;
}

}  // namespace adaact
