#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace adaact {

struct Point {
  double x = 0.0;
  double y = 0.0;
  double error = 0.0;  // a band is drawn from y - error to y + error; 0: none
};

struct Series {
  std::string name;
  std::vector<Point> points;  // those that are not finite are left out of the picture
  std::size_t style = 0;      // colour and dashes: the same run looks the same in every plot

  bool has_band() const;
};

enum class Scale { Linear, Logarithmic };

struct Tick {
  double position = 0.0;
  std::string label;
};

struct Axis {
  std::string label;
  std::string unit = {};  // after the number of each tick, as " %"
  Scale scale = Scale::Linear;
  bool whole_numbers = false;    // no tick between two of them
  bool from_zero = false;        // begins there, whatever the values
  bool tight = false;            // ends where the values do, and not at a tick
  std::vector<Tick> ticks = {};  // empty: chosen by the values
};

/// What a figure shows; how it is drawn is render_plot()'s business.
struct Plot {
  std::string title;
  Axis x;
  Axis y;
  std::vector<Series> series;
  /// What is drawn is the moving average over this share of each series. A reader of the page may choose
  /// another, unless it is 0.
  double smoothing = 0.0;
};

/// The part of the axis that is drawn, and its ticks.
struct AxisLayout {
  double low = 0.0;
  double high = 1.0;
  std::vector<Tick> ticks;
};
AxisLayout lay_out(const Axis& axis, const std::vector<double>& values);

/// A plot without points that cannot be drawn (not finite, or not positive on a logarithmic axis)
/// and without series that have no others.
Plot drawable_part(const Plot& plot);

/// The plot as it is drawn at first: with its smoothing applied.
Plot smoothed(const Plot& plot);

/// Each point the mean of a share of all points around it, of fewer towards the ends, with its own x.
/// Points that are not finite are left out.
std::vector<Point> moving_average(const std::vector<Point>& points, double share);

}  // namespace adaact
