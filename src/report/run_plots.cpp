#include "report/run_plots.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace adaact {
namespace {

constexpr std::size_t kMostPlaces = 400;      // of a curve: more than the figure has pixels for
constexpr std::size_t kMostNamedLayers = 12;  // as ticks of an axis
constexpr std::size_t kLongestNamedLayer = 10;
constexpr double kLargestLinearRatio = 20.0;

Axis axis_of(Against against) {
  Axis axis{against == Against::Epochs ? "epochs" : "seconds of training"};
  axis.whole_numbers = against == Against::Epochs;
  axis.from_zero = true;
  axis.tight = true;
  return axis;
}

std::string title_of(const char* what, Against against) {
  return std::string(what) + " against " + (against == Against::Epochs ? "epochs" : "seconds");
}

/// Where steps are in epochs is not known before the first one is finished: then there are no points.
std::vector<Point> loss_points(const RunHistory& run, Against against) {
  const auto steps_per_epoch = run.steps_per_epoch();
  if (against == Against::Epochs && !steps_per_epoch) return {};
  std::vector<Point> points;
  double seconds = 0.0;
  for (const auto& step : run.steps) {
    seconds += step.seconds + step.wait_seconds;
    const double epochs = static_cast<double>(step.step) / steps_per_epoch.value_or(1.0);
    points.push_back({against == Against::Epochs ? epochs : seconds, step.loss});
  }
  const auto window = std::max<std::size_t>(1, points.size() / 50);
  return smooth(points, window, kMostPlaces);
}

Scale scale_for(const std::vector<Series>& all) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0.0;
  for (const auto& series : all) {
    for (const auto& point : series.points) {
      if (!std::isfinite(point.y)) continue;
      if (point.y <= 0.0) return Scale::Linear;
      least = std::min(least, point.y);
      most = std::max(most, point.y);
    }
  }
  return most > kLargestLinearRatio * least ? Scale::Logarithmic : Scale::Linear;
}

/// "features.conv1.weight" as "features.conv1".
std::string layer_name(const std::string& weight) {
  const std::string end = ".weight";
  const bool named_so = weight.size() > end.size() &&
                        weight.compare(weight.size() - end.size(), end.size(), end) == 0;
  return named_so ? weight.substr(0, weight.size() - end.size()) : weight;
}

std::vector<std::string> layers_of(const RunHistory& run) {
  std::vector<std::string> layers;
  if (run.epochs.empty()) return layers;
  for (const auto& [weight, moment] : run.epochs.back().second_moments) {
    layers.push_back(layer_name(weight));
  }
  return layers;
}

/// The names of the layers, if all runs have the same and there is room for them.
std::vector<Tick> layer_ticks(const std::vector<NamedRun>& runs) {
  std::vector<std::string> names;
  for (const auto& run : runs) {
    const auto layers = layers_of(run.history);
    if (layers.empty()) continue;
    if (names.empty()) names = layers;
    if (names != layers) return {};
  }
  if (names.size() > kMostNamedLayers) return {};
  std::vector<Tick> ticks;
  for (const auto& name : names) {
    if (name.size() > kLongestNamedLayer) return {};
    ticks.push_back({static_cast<double>(ticks.size() + 1), name});
  }
  return ticks;
}

Axis moment_axis() {
  Axis axis{"E[a²]"};
  axis.scale = Scale::Logarithmic;
  return axis;
}

/// Which of so many layers are shown: evenly spread from the first to the last.
std::vector<std::size_t> layers_shown(std::size_t count) {
  const auto shown = std::min(count, kMostLayersShown);
  std::vector<std::size_t> layers;
  for (std::size_t index = 0; index < shown; ++index) {
    layers.push_back(shown == 1 ? 0 : index * (count - 1) / (shown - 1));
  }
  return layers;
}

}  // namespace

Plot train_loss_plot(const std::vector<NamedRun>& runs, Against against) {
  Plot plot{title_of("Train loss", against), axis_of(against), {"train loss"}, {}};
  for (std::size_t index = 0; index < runs.size(); ++index) {
    plot.series.push_back({runs[index].name, loss_points(runs[index].history, against), index});
  }
  plot.y.scale = scale_for(plot.series);
  return plot;
}

Plot test_accuracy_plot(const std::vector<NamedRun>& runs, Against against) {
  Plot plot{title_of("Test accuracy", against), axis_of(against), {"test top-1"}, {}};
  plot.y.unit = " %";
  for (std::size_t index = 0; index < runs.size(); ++index) {
    Series series{runs[index].name, {}, index};
    for (const auto& epoch : runs[index].history.epochs) {
      const auto epochs = static_cast<double>(epoch.epoch + 1);
      series.points.push_back(
          {against == Against::Epochs ? epochs : epoch.seconds, 100.0 * epoch.test.top1});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

Plot second_moments_by_layer(const std::vector<NamedRun>& runs) {
  Axis layers{"layer"};
  layers.ticks = layer_ticks(runs);
  layers.whole_numbers = true;
  layers.tight = true;
  if (layers.ticks.empty()) layers.label = "layer, counted from the input";
  Plot plot{"E[a²] by layer, after the last epoch", std::move(layers), moment_axis(), {}};
  for (std::size_t index = 0; index < runs.size(); ++index) {
    Series series{runs[index].name, {}, index};
    if (!runs[index].history.epochs.empty()) {
      for (const auto& [weight, moment] : runs[index].history.epochs.back().second_moments) {
        series.points.push_back({static_cast<double>(series.points.size() + 1), moment});
      }
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

Plot second_moments_over_epochs(const NamedRun& run) {
  Plot plot{"E[a²] over epochs, " + run.name, axis_of(Against::Epochs), moment_axis(), {}};
  plot.x.from_zero = false;  // before training nothing was measured
  const auto names = layers_of(run.history);
  for (const auto layer : layers_shown(names.size())) {
    Series series{names[layer], {}, plot.series.size()};
    for (const auto& epoch : run.history.epochs) {
      if (layer >= epoch.second_moments.size()) continue;
      series.points.push_back(
          {static_cast<double>(epoch.epoch + 1), epoch.second_moments[layer].second});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

}  // namespace adaact
