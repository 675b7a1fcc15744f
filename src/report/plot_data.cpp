#include "report/plot_data.h"

#include <cstdio>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/printable.h"
#include "report/courses.h"
#include "report/palette.h"

namespace adaact {
namespace {

/// A string of JSON in which nothing ends the element around it.
std::string json_string(const std::string& words) {
  std::string result;
  for (const char letter : nlohmann::json(printable(words)).dump()) {
    if (letter == '<') {
      result += "\\u003c";
    } else {
      result += letter;
    }
  }
  return result;
}

std::string json_number(double value) {
  char number[32];
  std::snprintf(number, sizeof(number), "%.5g", value);
  return number;
}

std::string axis_data(const Axis& axis) {
  std::string data = "{\"label\":" + json_string(axis.label);
  if (!axis.unit.empty()) data += ",\"unit\":" + json_string(axis.unit);
  if (axis.scale == Scale::Logarithmic) data += ",\"log\":true";
  if (axis.whole_numbers) data += ",\"whole\":true";
  if (axis.from_zero) data += ",\"zero\":true";
  if (axis.tight) data += ",\"tight\":true";
  if (axis.ticks.empty()) return data + "}";
  data += ",\"ticks\":[";
  for (const auto& tick : axis.ticks) {
    data += (data.back() == '[' ? "[" : ",[") + json_number(tick.position) + "," +
            json_string(tick.label) + "]";
  }
  return data + "]}";
}

std::vector<Point> some_of(const std::vector<Point>& points) {
  if (points.size() <= kMostPlaces) return points;
  std::vector<Point> some;
  for (std::size_t place = 0; place < kMostPlaces; ++place) {
    some.push_back(points[place * (points.size() - 1) / (kMostPlaces - 1)]);
  }
  return some;
}

std::string number_list(const std::vector<Point>& points, double Point::*number) {
  std::string list = "[";
  for (const auto& point : points) {
    if (list.size() > 1) list += ',';
    list += json_number(point.*number);
  }
  return list + "]";
}

/// Places on the x axis are left out where they are those of the series before.
std::string series_data(const Series& series, std::string& x_before) {
  const auto points = some_of(series.points);
  auto data = "{\"name\":" + json_string(series.name) + ",\"colour\":\"" +
              colour_variable(series.style) + "\"";
  const std::string dashes = dashes_of(series.style);
  if (!dashes.empty()) data += ",\"dashes\":\"" + dashes + "\"";
  auto x = number_list(points, &Point::x);
  if (x != x_before) data += ",\"x\":" + x;
  x_before = std::move(x);
  data += ",\"y\":" + number_list(points, &Point::y);
  if (series.has_band()) data += ",\"e\":" + number_list(points, &Point::error);
  return data + "}";
}

}  // namespace

std::string plot_data(const Plot& plot, const std::string& id) {
  auto data =
      "{\"id\":" + json_string(id) + ",\"x\":" + axis_data(plot.x) + ",\"y\":" + axis_data(plot.y);
  if (plot.smoothing > 0.0) data += ",\"smoothing\":" + json_number(plot.smoothing);
  data += ",\"series\":[";
  std::string x_before;
  for (const auto& series : plot.series) {
    data += (data.back() == '[' ? "" : ",") + series_data(series, x_before);
  }
  return data + "]}";
}

}  // namespace adaact
