#include "report/run_plots.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace adaact {
namespace {

constexpr std::size_t kMostNamedLayers = 12;  // as ticks of an axis
constexpr std::size_t kLongestNamedLayer = 10;
constexpr double kLargestLinearRatio = 20.0;
constexpr double kSmoothing = 0.02;

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

struct QuantityWords {
  const char* title;
  const char* axis;
  const char* unit;
};

QuantityWords words_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::TrainLoss:
      return {"Train loss", "train loss", ""};
    case Quantity::TestLoss:
      return {"Test loss", "test loss", ""};
    case Quantity::TestAccuracy:
      return {"Test accuracy", "test top-1", " %"};
    case Quantity::LearningRate:
      return {"Learning rate", "learning rate", ""};
    case Quantity::GradientNorm:
      return {"Gradient norm", "gradient norm", ""};
    case Quantity::StepTime:
      break;
  }
  return {"Time of a step", "milliseconds", ""};
}

bool varies_from_step_to_step(Quantity quantity) {
  return quantity == Quantity::TrainLoss || quantity == Quantity::GradientNorm ||
         quantity == Quantity::StepTime;
}

/// Small where all is well, and larger by orders of magnitude where it is not.
bool may_explode(Quantity quantity) {
  return quantity == Quantity::TrainLoss || quantity == Quantity::TestLoss ||
         quantity == Quantity::GradientNorm;
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
std::vector<Tick> layer_ticks(const std::vector<RunGroup>& groups) {
  std::vector<std::string> names;
  for (const auto& group : groups) {
    const auto layers = layers_of(group.runs.front()->history);
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

Plot course_plot(const std::vector<RunGroup>& groups, Quantity quantity, Against against) {
  const auto words = words_of(quantity);
  Plot plot{title_of(words.title, against), axis_of(against), {words.axis, words.unit}, {}};
  for (std::size_t index = 0; index < groups.size(); ++index) {
    plot.series.push_back({groups[index].name, course_of(groups[index], quantity, against), index});
  }
  if (may_explode(quantity)) plot.y.scale = scale_for(plot.series);
  if (varies_from_step_to_step(quantity)) plot.smoothing = kSmoothing;
  return plot;
}

Plot second_moments_by_layer(const std::vector<RunGroup>& groups) {
  Axis layers{"layer"};
  layers.ticks = layer_ticks(groups);
  layers.whole_numbers = true;
  layers.tight = true;
  if (layers.ticks.empty()) layers.label = "layer, counted from the input";
  Plot plot{"E[a²] by layer, after the last epoch", std::move(layers), moment_axis(), {}};
  for (std::size_t index = 0; index < groups.size(); ++index) {
    Series series{groups[index].name, {}, index};
    const auto& epochs = groups[index].runs.front()->history.epochs;
    if (!epochs.empty()) {
      for (const auto& [weight, moment] : epochs.back().second_moments) {
        series.points.push_back({static_cast<double>(series.points.size() + 1), moment});
      }
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

Plot second_moments_over_epochs(const std::string& name, const RunHistory& run) {
  Plot plot{"E[a²] over epochs, " + name, axis_of(Against::Epochs), moment_axis(), {}};
  plot.x.from_zero = false;  // before training nothing was measured
  const auto names = layers_of(run);
  for (const auto layer : layers_shown(names.size())) {
    Series series{names[layer], {}, plot.series.size()};
    for (const auto& epoch : run.epochs) {
      if (layer >= epoch.second_moments.size()) continue;
      series.points.push_back(
          {static_cast<double>(epoch.epoch + 1), epoch.second_moments[layer].second});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

}  // namespace adaact
