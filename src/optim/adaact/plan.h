#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <adaact/optim/adaact.h>

#include "moments/accumulator.h"

namespace adaact {

/// What is to be measured of a layer's input.
struct MeasuredLayer {
  bool managed = false;  // in a parameter group
  bool full = false;     // covariance rather than second moment
  bool with_bias = false;

  /// How many numbers a row of the layer's moments has.
  std::int64_t width(const torch::Tensor& weight) const {
    return weight.numel() / weight.size(0) + (with_bias ? 1 : 0);
  }
  /// Whether moments of this shape are what would be measured now.
  bool would_give(const torch::Tensor& moments, const torch::Tensor& weight) const {
    return (moments.dim() == 3) == full && moments.size(-1) == width(weight);
  }
};

/// How a step changes a parameter.
enum class Rule : std::uint8_t {
  ScaledByInput,   // an observed weight: M̂ / (V̂ᵖ + ε)
  FullCovariance,  // the same with a matrix: M̂ ((Â + δI)ᵖ + εI)⁻¹
  ColumnOfWeight,  // a bias that is one more column of that matrix
  ConstantInput,   // M̂ / (1 + ε): a bias, or UnobservedRule::Momentum
  PlainGradient,   // θ − η(g + λθ): UnobservedRule::PlainGradient
  None,            // it has no gradient
};

/// A parameter in a group, before a step.
struct KnownParameter {
  std::size_t index = 0;  // into LayerMap::parameters()
  std::int64_t group = 0;
  const AdaActOptions* options = nullptr;
  const AdaActParamState* state = nullptr;  // null where it has none yet
  MeasuredLayer layer;
  std::optional<std::size_t> joint_bias;  // with the full covariance: which bias is a column of it
  bool is_trained = false;
};

/// What happens to a parameter in a step.
struct PlannedUpdate {
  KnownParameter of;
  torch::Tensor theta;
  Rule rule = Rule::None;
  Rule rule_of_gaps = Rule::None;  // of rows that no observation has covered, in an observed weight
  std::vector<const PendingMoment*> seen;  // of its input in this step: V moves
  bool has_used_layer = false;             // it is a bias, and its layer was observed in this step
  std::optional<std::size_t> column;  // place in the plan of the bias that goes with this weight
  AdaActParamState* state = nullptr;  // where M and V are kept; null where nothing is

  bool has_m() const { return rule != Rule::PlainGradient && rule != Rule::None; }
  bool is_full() const { return of.options->covariance() == Covariance::Full; }
  /// V moves in apply(); with the full covariance it has moved in decide().
  bool moves_v() const { return !seen.empty() && !is_full(); }
  /// Whether each element of the parameter is updated by itself, given V̂.
  bool is_elementwise() const {
    return rule == Rule::ScaledByInput || rule == Rule::ConstantInput ||
           rule == Rule::PlainGradient;
  }
  bool needs_state() const { return has_m() || !seen.empty() || has_used_layer; }
};

/// The step that follows from what is known and what was observed, parameter by parameter in their order.
/// Changes nothing.
std::vector<PlannedUpdate> plan_step(const LayerMap& model,
                                     const std::vector<KnownParameter>& parameters,
                                     const std::vector<PendingMoment>& observed);

}  // namespace adaact
