#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "experiments/page/curves.h"
#include "experiments/paper/catalog.h"
#include "experiments/paper/lenet_variances.h"
#include "experiments/paper/paper_runs.h"
#include "experiments/shelf/divergence.h"
#include "io/joined.h"
#include "report/format.h"
#include "report/palette.h"

namespace adaact {
namespace {

struct Curve {
  const char* name;
  double ActivationVariance::*quantity;
  std::size_t style;
};

/// The style of a line with dashes in the same colour.
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
    const auto label = label_of(layer);
    Series curve{label, {}, plot.series.size()};
    for (const auto& mean : mean_variances_by_epoch(all.front(), layer)) {
      curve.points.push_back(with_band(static_cast<double>(curve.points.size() + 1), mean));
    }
    plot.series.push_back(std::move(curve));
  }
  return plot;
}

Plot bounds_of_layer(const RunSeries& series, const std::string& layer) {
  auto plot = variance_plot("Bounds of the variance, " + label_of(layer));
  const auto by_epoch = variances_by_epoch(series, layer);
  for (const auto& curve : kCurves) plot.series.push_back(curve_of(by_epoch, curve));
  return plot;
}

Table bounds_table(const std::vector<RunSeries>& all) {
  Table table{"Bounds of the variance over the whole training", {{text("Activation"), ""}}, {}};
  for (const char* heading : {"Lowest layer mean", "Highest layer mean",
                              "Lowest of a single activation", "Highest of a single activation"}) {
    table.heading.push_back({text(heading), "number"});
  }
  for (const auto& layer : hidden_layers(all)) {
    const auto bounds = together(variances_by_epoch(all.front(), layer));
    std::vector<Cell> row{{text(label_of(layer)), ""}};
    for (const double bound :
         {bounds.lowest_mean, bounds.highest_mean, bounds.lowest, bounds.highest}) {
      row.push_back({text(variance_text(bound)), "number"});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// What bounds are taken to be: the second half of training goes beyond those of the first by so much at
// most. The last epochs would say nothing: the learning rate is so small there that nothing moves.
constexpr double kTolerated = 0.1;

/// How far the second half of training goes beyond the bounds of the layer mean in the first half, as
/// a fraction of them. NaN where nothing can be said.
struct Drift {
  double above = 0.0;
  double below = 0.0;

  double largest() const { return above > below || std::isnan(above) ? above : below; }
  bool is_tolerated() const { return above <= kTolerated && below <= kTolerated; }
  std::string to_text() const {
    if (std::isnan(largest())) return kNothing;
    if (largest() <= 0.0) return "0 %";
    return percent(largest()) + (above > below ? " above" : " below");
  }
};

Drift drift_of(const std::vector<ActivationVariance>& by_epoch) {
  const auto middle = by_epoch.begin() + static_cast<std::ptrdiff_t>(by_epoch.size() / 2);
  const auto first = together({by_epoch.begin(), middle});
  const auto second = together({middle, by_epoch.end()});
  return {second.highest_mean / first.highest_mean - 1.0,
          first.lowest_mean / second.lowest_mean - 1.0};
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
  bool settled = true;
  std::vector<std::string> means;
  std::vector<std::string> drifts;
  for (const auto& layer : hidden_layers(all)) {
    const auto by_epoch = variances_by_epoch(all.front(), layer);
    const auto bounds = together(by_epoch);
    const auto drift = drift_of(by_epoch);
    means.push_back(label_of(layer) + " " + range(bounds.lowest_mean, bounds.highest_mean));
    drifts.push_back(label_of(layer) + " " + drift.to_text());
    bounded = bounded && bounds.lowest_mean > 0.0 && std::isfinite(bounds.highest_mean);
    settled = settled && drift.is_tolerated();
  }
  finding.measured = "Layer means of single steps: " + joined(means) + ". ";
  if (!bounded) {
    finding.measured += "One of them is 0 or not finite.";
    finding.verdict = Finding::Verdict::Disagrees;
    return finding;
  }
  finding.measured +=
      "The second half of training goes beyond the bounds of the first half by: " + joined(drifts) +
      ". Taken for bounds: at most " + percent(kTolerated) + " in every layer" +
      (settled ? "." : "; so they may go on.");
  if (settled) finding.verdict = Finding::Verdict::Agrees;
  return finding;
}

/// A4 is about the moments that AdaAct uses, which of a convolution are means over positions; single
/// values decide it where the layer that reads them is fully connected.
bool is_fully_connected(const std::string& layer) { return layer.rfind("fc", 0) == 0; }

/// What speaks for and against A4, of the activations that fully connected layers read.
struct SingleActivations {
  std::vector<std::string> moments;    // ranges
  std::vector<std::string> variances;  // ranges
  std::vector<std::string> dead;       // E[a²] of an activation was 0 in a step
  std::vector<std::string> constant;   // the variance of one was 0
  bool measured = true;                // the record has moments
  bool finite = true;
};

/// Earlier versions measured the variance of single activations, but not E[a²].
bool has_moments(const RunHistory* run) {
  for (const auto& epoch : run->epochs) {
    for (const auto& variance : epoch.activation_variances) {
      if (std::isnan(variance.lowest_moment) && !std::isnan(variance.lowest)) return false;
    }
  }
  return true;
}

/// The runs that have them; all where none has.
RunSeries with_moments(RunSeries series) {
  auto runs = series.runs;
  runs.erase(std::remove_if(runs.begin(), runs.end(), std::not_fn(has_moments)), runs.end());
  if (!runs.empty()) series.runs = std::move(runs);
  return series;
}

SingleActivations single_activations(const RunSeries& series) {
  SingleActivations singles;
  for (const auto& layer : hidden_layers({series})) {
    if (!is_fully_connected(layer)) continue;
    const auto label = label_of(layer);
    const auto bounds = together(variances_by_epoch(series, layer));
    singles.moments.push_back(label + " " + range(bounds.lowest_moment, bounds.highest_moment));
    singles.variances.push_back(label + " " + range(bounds.lowest, bounds.highest));
    if (bounds.lowest_moment == 0.0) singles.dead.push_back(label);
    if (bounds.lowest == 0.0) singles.constant.push_back(label);
    singles.measured = singles.measured && !std::isnan(bounds.lowest_moment);
    singles.finite = singles.finite && std::isfinite(bounds.lowest) &&
                     std::isfinite(bounds.highest) && !std::isinf(bounds.highest_moment);
  }
  return singles;
}

Finding bounded_activations(const std::vector<RunSeries>& all) {
  const std::string claim =
      "Assumption A4: in every step E[a²] of every single activation lies between constants "
      "c_L > 0 and c_U.";
  const auto measured = with_moments(all.front());
  const auto singles = single_activations(measured);
  const auto runs = std::to_string(measured.runs.size()) + " of " +
                    std::to_string(all.front().runs.size()) + " runs";
  const auto moments = "E[a²] of what fully connected layers read" +
                       (measured.runs.size() < all.front().runs.size() ? ", in " + runs : "") +
                       ": " + joined(singles.moments) + ". ";
  if (!singles.dead.empty()) {
    return {
        claim,
        moments + "In " + joined(singles.dead) +
            " an activation was 0 for all images of a batch, as a ReLU is that is off for all of "
            "them. No c_L > 0 is below that unless moments are clipped (clip_range).",
        Finding::Verdict::Disagrees};
  }
  if (!singles.finite) {
    return {
        claim,
        "Variances of single activations: " + joined(singles.variances) + ". Some are not finite.",
        Finding::Verdict::Disagrees};
  }
  if (singles.measured) return {claim, moments + "None of them is 0.", Finding::Verdict::Agrees};
  std::string hint;
  if (!singles.constant.empty()) {
    hint =
        " In " + joined(singles.constant) +
        " a variance is exactly 0, which hints at a ReLU that was off for all images of a batch.";
  }
  return {claim,
          "E[a²] of single activations was not measured in these runs. Their variances: " +
              joined(singles.variances) + "." + hint,
          Finding::Verdict::Open};
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
    for (const auto seed : seeds_of(form, {0, 1, 2})) {
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
        page.figure(all_layers(all), "activation_variance_of_layers",
                    "Mean of each epoch, over the runs with a band of its standard error.")};
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
    std::vector<Finding> findings{bounded_layers(all), bounded_activations(all)};
    const auto divergence = divergence_text(all.front().runs);
    for (auto& finding : findings) {
      if (divergence.empty()) break;
      const bool nothing = hidden_layers(all).empty();
      finding.measured = "A run " + divergence +
                         ". Before that: " + (nothing ? "not an epoch." : finding.measured);
      finding.verdict = Finding::Verdict::Open;
    }
    return open_until_complete(found, findings);
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
                       {"highest_single", bounds.highest},
                       {"lowest_single_moment", bounds.lowest_moment},
                       {"highest_single_moment", bounds.highest_moment}};
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
