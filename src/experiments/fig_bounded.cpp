#include <cmath>
#include <utility>

#include "experiments/catalog.h"
#include "experiments/curves.h"
#include "experiments/lenet_variances.h"
#include "experiments/paper_runs.h"
#include "report/palette.h"

namespace adaact {
namespace {

struct Curve {
  const char* name;
  double ActivationVariance::*quantity;
  std::size_t style;
};

/// With dashes, in the same colour.
constexpr std::size_t dashed(std::size_t style) { return style + kSeriesColours.size(); }

constexpr Curve kCurves[]{
    {"highest of a single activation", &ActivationVariance::highest, 2},
    {"highest layer mean of a step", &ActivationVariance::highest_mean, 1},
    {"mean", &ActivationVariance::mean, 0},
    {"lowest layer mean of a step", &ActivationVariance::lowest_mean, dashed(1)},
    {"lowest of a single activation", &ActivationVariance::lowest, dashed(2)},
};

Series curve_of(const std::vector<ActivationVariance>& by_epoch, const Curve& curve) {
  Series series{curve.name, {}, curve.style};
  for (const auto& variance : by_epoch) {
    series.points.push_back(
        {static_cast<double>(series.points.size() + 1), variance.*curve.quantity});
  }
  return series;
}

Plot variance_plot(const std::string& title) {
  Plot plot{title, epoch_axis(), {"variance"}, {}};
  plot.y.scale = Scale::Logarithmic;
  return plot;
}

Plot all_layers(const std::vector<RunSeries>& all) {
  auto plot = variance_plot("Activation variance of the hidden layers");
  for (const auto& layer : hidden_layers(all)) {
    plot.series.push_back(curve_of(variances_by_epoch(all.front(), layer),
                                   {layer.c_str(), &ActivationVariance::mean, plot.series.size()}));
  }
  return plot;
}

Plot bounds_of_layer(const RunSeries& series, const std::string& layer) {
  auto plot = variance_plot("Bounds of the variance, " + layer);
  const auto by_epoch = variances_by_epoch(series, layer);
  for (const auto& curve : kCurves) plot.series.push_back(curve_of(by_epoch, curve));
  return plot;
}

Table bounds_table(const std::vector<RunSeries>& all) {
  Table table{"Bounds of the variance over the whole training", {{text("Layer"), ""}}, {}};
  for (const char* heading : {"Lowest layer mean", "Highest layer mean",
                              "Lowest of a single activation", "Highest of a single activation"}) {
    table.heading.push_back({text(heading), "number"});
  }
  for (const auto& layer : hidden_layers(all)) {
    const auto bounds = together(variances_by_epoch(all.front(), layer));
    std::vector<Cell> row{{text(layer), ""}};
    for (const double bound :
         {bounds.lowest_mean, bounds.highest_mean, bounds.lowest, bounds.highest}) {
      row.push_back({text(variance_text(bound)), "number"});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// Every training that ends has bounds. They mean something if its last tenth moved them by less than
/// a tenth.
bool are_settled(const std::vector<ActivationVariance>& by_epoch) {
  constexpr double kTolerated = 1.1;
  const auto last_tenth = static_cast<std::ptrdiff_t>((by_epoch.size() + 9) / 10);
  const auto before = together({by_epoch.begin(), by_epoch.end() - last_tenth});
  const auto bounds = together(by_epoch);
  return bounds.highest_mean <= before.highest_mean * kTolerated &&
         bounds.lowest_mean >= before.lowest_mean / kTolerated;
}

std::string range(double low, double high) {
  return variance_text(low) + " to " + variance_text(high);
}

Finding bounded_layers(const std::vector<RunSeries>& all) {
  Finding finding;
  finding.claim =
      "With AdaAct the activation variances of all hidden layers have natural bounds, below and "
      "above, throughout the training.";
  bool bounded = true;
  std::string unsettled;
  for (const auto& layer : hidden_layers(all)) {
    const auto by_epoch = variances_by_epoch(all.front(), layer);
    const auto bounds = together(by_epoch);
    finding.measured += (finding.measured.empty() ? "Layer means of single steps: " : ", ") +
                        layer + " " + range(bounds.lowest_mean, bounds.highest_mean);
    bounded = bounded && bounds.lowest_mean > 0.0 && std::isfinite(bounds.highest_mean);
    if (!are_settled(by_epoch)) unsettled += (unsettled.empty() ? "" : ", ") + layer;
  }
  finding.measured += ". ";
  if (!bounded) {
    finding.measured += "One of them is 0 or not finite.";
    finding.verdict = Finding::Verdict::Disagrees;
  } else if (!unsettled.empty()) {
    finding.measured += "The last tenth of the training still moved them by more than 10 % in " +
                        unsettled + ", so they may go on.";
  } else {
    finding.measured += "The last tenth of the training moved none of them by more than 10 %.";
    finding.verdict = Finding::Verdict::Agrees;
  }
  return finding;
}

/// A4 is about the moments that AdaAct uses, which of a convolution are means over positions; single
/// values decide it where the layer is fully connected.
bool is_fully_connected(const std::string& layer) { return layer.rfind("fc", 0) == 0; }

Finding bounded_activations(const std::vector<RunSeries>& all) {
  Finding finding;
  finding.claim =
      "Assumption A4: in every step E[a²] of every single activation lies between constants "
      "c_L > 0 and c_U.";
  std::string dead;
  bool finite = true;
  for (const auto& layer : hidden_layers(all)) {
    if (!is_fully_connected(layer)) continue;
    const auto bounds = together(variances_by_epoch(all.front(), layer));
    finding.measured += (finding.measured.empty() ? "Variances of single activations: " : ", ") +
                        layer + " " + range(bounds.lowest, bounds.highest);
    if (bounds.lowest == 0.0) dead += (dead.empty() ? "" : ", ") + layer;
    finite = finite && std::isfinite(bounds.lowest) && std::isfinite(bounds.highest);
  }
  finding.measured += ". ";
  if (!dead.empty()) {
    finding.measured += "In " + dead +
                        " an activation was the same for all images of a batch, as a ReLU is "
                        "that is off for all of them. Its E[a²] is 0 then, and no c_L > 0 is below "
                        "it unless moments are clipped (clip_range).";
  } else if (!finite) {
    finding.measured += "Some are not finite.";
  } else {
    finding.measured += "E[a²] is never less than the variance.";
  }
  finding.verdict = dead.empty() && finite ? Finding::Verdict::Agrees : Finding::Verdict::Disagrees;
  return finding;
}

class FigBounded : public Experiment {
 public:
  std::string name() const override { return "fig-bounded"; }
  std::string title() const override { return "Figure 4: bounded activation variances"; }
  std::string shows() const override {
    return "lower and upper bounds of the activation variance of LeNet-5 with AdaAct";
  }

  ExperimentPlan plan(const ExperimentForm& form) const override {
    ExperimentPlan plan;
    for (const auto seed : seeds_of(form, {0})) {
      plan.runs.push_back(lenet_run("adaact", form, seed));
    }
    return plan;
  }

  void draw(const Found& found, Page& page) const override {
    const auto all = series_of(found);
    page.add_paragraph(
        "The convergence proof assumes that activation variances lie between two positive "
        "constants (A4). These are the bounds that were observed with AdaAct, which clips nothing "
        "by default: of the mean of a layer in any step, and of a single value of its flattened "
        "input in any step.");
    page.add_paragraph(kHiddenLayers, "note");
    std::vector<Markup> figures{
        page.figure(all_layers(all), "activation_variance_of_layers", "Mean of each epoch.")};
    for (const auto& layer : hidden_layers(all)) {
      figures.push_back(page.figure(bounds_of_layer(all.front(), layer), "variance_bounds_" + layer,
                                    "Of the steps of each epoch. A variance of 0 has no place on a "
                                    "logarithmic axis."));
    }
    page.add_figures(figures);
    page.add_table(bounds_table(all));
  }

  std::vector<Finding> findings(const Found& found) const override {
    const auto all = series_of(found);
    return open_until_complete(found, {bounded_layers(all), bounded_activations(all)});
  }

  nlohmann::ordered_json to_json(const Found& found) const override {
    const auto all = series_of(found);
    auto layers = nlohmann::ordered_json::object();
    for (const auto& layer : hidden_layers(all)) {
      const auto bounds = together(variances_by_epoch(all.front(), layer));
      layers[layer] = {{"mean", bounds.mean},
                       {"lowest_layer_mean", bounds.lowest_mean},
                       {"highest_layer_mean", bounds.highest_mean},
                       {"lowest_single", bounds.lowest},
                       {"highest_single", bounds.highest}};
    }
    return {{"layers", layers}};
  }
};

}  // namespace

const Experiment& fig_bounded() {
  static const FigBounded experiment;
  return experiment;
}

}  // namespace adaact
