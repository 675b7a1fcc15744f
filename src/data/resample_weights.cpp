#include "data/resample_weights.h"

#include <algorithm>
#include <cmath>

namespace adaact {
namespace {

double triangle(double x) {
  x = std::abs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

/// The cubic convolution with a = -½.
double cubic_bump(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * kA : 0.0;
}

std::int32_t in_fixed_point(double weight) {
  const double scaled = weight * (1 << ResampleWeights::kBits);
  return static_cast<std::int32_t>(weight < 0.0 ? scaled - 0.5 : scaled + 0.5);
}

/// The whole number that is nearest to x; of two that are equally near the larger one.
std::int64_t nearest(double x) { return static_cast<std::int64_t>(std::floor(x + 0.5)); }

}  // namespace

ResampleWeights::ResampleWeights(const ScaledAxis& axis, ResampleFilter filter) {
  const bool bilinear = filter == ResampleFilter::Bilinear;
  const double scale = static_cast<double>(axis.in) / static_cast<double>(axis.out);
  const double stretch = std::max(scale, 1.0);
  const double shrink = 1.0 / stretch;
  const double reach = (bilinear ? 1.0 : 2.0) * stretch;
  std::vector<double> exact;
  outputs_.reserve(static_cast<std::size_t>(axis.count));
  for (std::int64_t i = axis.begin; i < axis.begin + axis.count; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, nearest(centre - reach));
    const auto end = std::min(axis.in, nearest(centre + reach));
    outputs_.push_back({first, end - first, static_cast<std::int64_t>(weights_.size())});
    most_taps_ = std::max(most_taps_, end - first);
    exact.clear();
    double sum = 0.0;
    for (auto j = first; j < end; ++j) {
      const double x = (static_cast<double>(j) - centre + 0.5) * shrink;
      exact.push_back(bilinear ? triangle(x) : cubic_bump(x));
      sum += exact.back();
    }
    for (const auto weight : exact) weights_.push_back(in_fixed_point(weight / sum));
  }
}

void ResampleWeights::reverse() { std::reverse(outputs_.begin(), outputs_.end()); }

}  // namespace adaact
