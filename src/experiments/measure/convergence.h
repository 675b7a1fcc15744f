#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace adaact {

/// A number at each of some iterations, which ascend.
struct IterationCurve {
  std::vector<std::int64_t> iterations;
  std::vector<double> values;
};

/// ‖∇f(θ_t)‖² of AdaAct under the assumptions of the paper's corollary: f smooth, not convex and with
/// bounded gradients, η_t = 1/√t, β₁ fixed, second moments clipped to [c_L, c_U]. The seed is that of the
/// noise; the problem and its start are always the same. In float64 on the CPU.
///
/// ∇f is computed at some iterations only, 16 for each doubling of t. The minimum over these is no
/// smaller than that over all: where it obeys the bound, so does the other.
IterationCurve squared_gradient_norms(std::int64_t steps, std::uint64_t seed,
                                      const std::function<void(const std::string&)>& progress);

/// The iterations at which ∇f is computed, as many as there are up to `steps`.
std::vector<std::int64_t> iterations_with_gradients(std::int64_t steps);

/// All that decides what comes out, but for the steps and the seed.
nlohmann::ordered_json convergence_setting();

/// min_{t ≤ T} E‖∇f(θ_t)‖², the left side of the corollary.
struct SmallestGradients {
  IterationCurve minimum;               // at T = 32, 64, …
  std::vector<double> standard_errors;  // of the mean that is the minimum; NaN of one curve
};

/// E is the mean over curves, of which there is one at least and which have the same iterations.
SmallestGradients smallest_gradients(const std::vector<IterationCurve>& curves);

/// log T/√T, the corollary's rate.
IterationCurve corollary_rate(const std::vector<std::int64_t>& horizons);

/// What a curve has from an iteration on.
IterationCurve part_from(std::int64_t iteration, const IterationCurve& curve);

/// k of the power T^k that fits best, by least squares of logarithms.
double fitted_exponent(const IterationCurve& curve);

/// The smallest Q for which Q log T/√T is nowhere below the curve.
double smallest_factor(const IterationCurve& curve);

}  // namespace adaact
