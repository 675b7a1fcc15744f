#pragma once

#include <cmath>

#include <c10/macros/Macros.h>

namespace adaact {

/// A change of an element by more than so many times 1 + |θ| is out of all proportion.
constexpr double kOutsized = 100.0;

/// Whether a step changes an element out of proportion. Weights are of order 1, and a step changes them by a part
/// of that. But where the input that scales them has always been 0, a gradient that reaches them by another way,
/// such as a penalty in the loss, is divided by ε alone.
template <typename State>
C10_HOST_DEVICE inline bool is_outsized(State change, State theta) {
  return std::abs(change) > static_cast<State>(kOutsized) * (State(1) + std::abs(theta));
}

}  // namespace adaact
