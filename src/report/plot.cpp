#include "report/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace adaact {
namespace {

constexpr double kWantedTicks = 5.0;

std::string tick_label(double value, const std::string& unit) {
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%g", value == 0.0 ? 0.0 : value);  // no "-0"
  return digits + unit;
}

/// The smallest of 1, 2, 5, 10, 20, … (and 0.5, 0.2, …) that is not below `wanted`.
double round_step(double wanted) {
  const double power = std::pow(10.0, std::floor(std::log10(wanted)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= wanted * (1.0 - 1e-9)) return factor * power;
  }
  return 10.0 * power;
}

AxisLayout linear_layout(const Axis& axis, double low, double high) {
  if (axis.from_zero) low = std::min(low, 0.0);
  if (axis.whole_numbers) high = std::ceil(high - 1e-6);
  if (high - low <= 1e-9 * std::max(std::abs(low), std::abs(high))) {
    const double margin = high == 0.0 ? 1.0 : 0.1 * std::abs(high);
    high += margin;
    if (!axis.from_zero) low -= margin;
  }
  double step = round_step((high - low) / kWantedTicks);
  if (axis.whole_numbers) step = std::max(step, 1.0);
  AxisLayout layout;
  const double slack = 1e-6 * step;
  layout.low = axis.tight ? low : step * std::floor((low + slack) / step);
  layout.high = axis.tight ? high : step * std::ceil((high - slack) / step);
  const double first = std::ceil((layout.low - slack) / step);
  for (double index = first; index * step <= layout.high + slack; index += 1.0) {
    layout.ticks.push_back({index * step, tick_label(index * step, axis.unit)});
  }
  return layout;
}

/// Powers of ten, every one or every second and so on; within two decades 2 and 5 of each as well. A
/// part of a decade may hold none of them, but it looks almost linear: it has the ticks of that.
std::vector<Tick> logarithmic_ticks(const Axis& axis, double low, double high) {
  const double decades = std::log10(high / low);
  if (decades < 0.7) return linear_layout(axis, low, high).ticks;
  const int every = std::max(1, static_cast<int>(std::ceil(decades / (kWantedTicks + 2.0))));
  const std::vector<double> factors =
      decades <= 2.0 ? std::vector<double>{1.0, 2.0, 5.0} : std::vector<double>{1.0};
  std::vector<Tick> ticks;
  const int last = static_cast<int>(std::ceil(std::log10(high)));
  for (int exponent = static_cast<int>(std::floor(std::log10(low))); exponent <= last; ++exponent) {
    if (exponent % every != 0) continue;
    for (const double factor : factors) {
      const double position = factor * std::pow(10.0, exponent);
      ticks.push_back({position, tick_label(position, axis.unit)});
    }
  }
  return ticks;
}

AxisLayout logarithmic_layout(const Axis& axis, double low, double high) {
  const double margin = std::pow(high / low, 0.05) * 1.02;
  AxisLayout layout{low / margin, high * margin, {}};
  for (auto& tick : logarithmic_ticks(axis, layout.low, layout.high)) {
    if (tick.position >= layout.low && tick.position <= layout.high) layout.ticks.push_back(tick);
  }
  return layout;
}

/// What is beyond is as good as infinite, or zero: differences and quotients of such numbers would be.
constexpr double kLargestDrawn = 1e100;

bool can_be_drawn(double value, const Axis& axis) {
  return std::abs(value) <= kLargestDrawn &&
         (axis.scale == Scale::Linear || value >= 1.0 / kLargestDrawn);
}

}  // namespace

bool Series::has_band() const {
  return std::any_of(points.begin(), points.end(),
                     [](const Point& point) { return point.error > 0.0; });
}

AxisLayout lay_out(const Axis& axis, const std::vector<double>& values) {
  const bool logarithmic = axis.scale == Scale::Logarithmic;
  double low = logarithmic ? 0.1 : 0.0;
  double high = 1.0;
  if (!values.empty()) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    low = *least;
    high = *most;
  }
  if (!axis.ticks.empty()) {
    for (const auto& tick : axis.ticks) {
      low = std::min(low, tick.position);
      high = std::max(high, tick.position);
    }
    const double margin = 0.03 * (high - low) + (high == low ? 0.5 : 0.0);
    return {low - margin, high + margin, axis.ticks};
  }
  return logarithmic ? logarithmic_layout(axis, low, high) : linear_layout(axis, low, high);
}

Plot drawable_part(const Plot& plot) {
  Plot part{plot.title, plot.x, plot.y, {}, plot.smoothing};
  for (const auto& series : plot.series) {
    Series kept{series.name, {}, series.style};
    for (const auto& point : series.points) {
      if (can_be_drawn(point.x, plot.x) && can_be_drawn(point.y, plot.y)) {
        kept.points.push_back(point);
        if (!(point.error <= kLargestDrawn)) kept.points.back().error = 0.0;
      }
    }
    if (!kept.points.empty()) part.series.push_back(std::move(kept));
  }
  return part;
}

Plot smoothed(const Plot& plot) {
  auto result = plot;
  result.smoothing = 0.0;
  if (plot.smoothing == 0.0) return result;
  for (auto& series : result.series) {
    series.points = moving_average(series.points, plot.smoothing);
  }
  return result;
}

/// page_script.js does the same.
std::vector<Point> moving_average(const std::vector<Point>& points, double share) {
  std::vector<Point> finite;
  for (const auto& point : points) {
    if (std::isfinite(point.y)) finite.push_back(point);
  }
  const auto window = std::round(share * static_cast<double>(finite.size()));
  const auto widest_half = static_cast<std::size_t>(std::max(window, 1.0)) / 2;
  // Sums of all before a point: a window of any width takes two of them.
  std::vector<Point> sums(finite.size() + 1);
  for (std::size_t i = 0; i < finite.size(); ++i) {
    sums[i + 1] = {0.0, sums[i].y + finite[i].y, sums[i].error + finite[i].error};
  }
  auto averages = finite;
  for (std::size_t i = 0; i < finite.size(); ++i) {
    const auto half = std::min({widest_half, i, finite.size() - 1 - i});
    if (half == 0) continue;
    const auto& before = sums[i - half];
    const auto& up_to = sums[i + half + 1];
    const auto count = static_cast<double>(2 * half + 1);
    averages[i].y = (up_to.y - before.y) / count;
    averages[i].error = (up_to.error - before.error) / count;
  }
  return averages;
}

}  // namespace adaact
