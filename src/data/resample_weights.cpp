#include "data/resample_weights.h"

#include <algorithm>

namespace adaact {

ResampleWeights::ResampleWeights(const ScaledAxis& axis, ResampleFilter filter) {
  std::vector<double> exact;
  outputs_.reserve(static_cast<std::size_t>(axis.count));
  for (std::int64_t i = axis.begin; i < axis.begin + axis.count; ++i) {
    const auto window = tap_window(axis.in, axis.out, i, filter);
    const auto taps = window.end - window.first;
    outputs_.push_back({window.first, taps, static_cast<std::int64_t>(weights_.size())});
    most_taps_ = std::max(most_taps_, taps);
    exact.clear();
    double sum = 0.0;
    for (auto input = window.first; input < window.end; ++input) {
      exact.push_back(tap_weight(window, input, filter));
      sum += exact.back();
    }
    for (const auto weight : exact) weights_.push_back(in_fixed_point(weight / sum));
  }
}

void ResampleWeights::reverse() { std::reverse(outputs_.begin(), outputs_.end()); }

}  // namespace adaact
