#include <algorithm>
#include <cmath>
#include <utility>

#include "experiments/page/curves.h"
#include "experiments/paper/catalog.h"
#include "experiments/paper/lenet_variances.h"
#include "experiments/paper/paper_runs.h"
#include "experiments/shelf/divergence.h"
#include "report/mean_and_error.h"

namespace adaact {
namespace {

double averaged_variance(const RunSeries& series, const std::string& layer) {
  return together(variances_by_epoch(series, layer)).mean;
}

/// A number that every layer has in every series.
using LayerQuantity = double (*)(const RunSeries&, const std::string&);

Plot by_layer(const std::vector<RunSeries>& all, const std::string& title, const std::string& label,
              LayerQuantity quantity) {
  const auto layers = hidden_layers(all);
  Plot plot{title, {"layer"}, {label}, {}};
  plot.y.scale = Scale::Logarithmic;
  for (const auto& layer : layers) {
    plot.x.ticks.push_back({static_cast<double>(plot.x.ticks.size() + 1), label_of(layer)});
  }
  for (const auto& series : all) {
    Series curve{series.name, {}, series.style};
    for (const auto& layer : layers) {
      std::vector<double> of_runs;
      for (const auto* run : series.runs) {
        of_runs.push_back(quantity({series.name, series.style, {run}}, layer));
      }
      const double error = of_runs.empty() ? 0.0 : mean_and_error(of_runs).standard_error;
      curve.points.push_back(with_band(static_cast<double>(curve.points.size() + 1),
                                       {quantity(series, layer), error}));
    }
    plot.series.push_back(std::move(curve));
  }
  return plot;
}

Plot variance_over_epochs(const std::vector<RunSeries>& all, const std::string& layer) {
  Plot plot{"Activation variance over epochs, " + label_of(layer), epoch_axis(), {"variance"}, {}};
  plot.y.scale = Scale::Logarithmic;
  for (const auto& series : all) {
    Series curve{series.name, {}, series.style};
    for (const auto& mean : mean_variances_by_epoch(series, layer)) {
      curve.points.push_back(with_band(static_cast<double>(curve.points.size() + 1), mean));
    }
    plot.series.push_back(std::move(curve));
  }
  return plot;
}

/// The averaged variances of one layer.
struct Comparison {
  std::vector<double> variances;  // of each series
  bool complete = true;           // all of them are known

  double smallest() const { return *std::min_element(variances.begin(), variances.end()); }
};

Comparison compare(const std::vector<RunSeries>& all, const std::string& layer) {
  Comparison comparison;
  for (const auto& series : all) {
    const double variance = averaged_variance(series, layer);
    comparison.variances.push_back(variance);
    comparison.complete = comparison.complete && std::isfinite(variance);
  }
  return comparison;
}

Table variance_table(const std::vector<RunSeries>& all) {
  Table table{"Averaged activation variance", {{text("Activation"), ""}}, {}};
  for (const auto& series : all) {
    table.heading.push_back({series_cell(series).content, "number"});
  }
  for (const auto& layer : hidden_layers(all)) {
    const auto comparison = compare(all, layer);
    std::vector<Cell> row{{text(label_of(layer)), ""}};
    for (const double variance : comparison.variances) {
      const bool best = comparison.complete && variance == comparison.smallest();
      row.push_back({text(variance_text(variance)), best ? "number best" : "number"});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table moment_table(const std::vector<RunSeries>& all) {
  Table table{"E[a²], the second moment that AdaAct uses", {{text("Activation"), ""}}, {}};
  for (const auto& series : all) {
    table.heading.push_back({series_cell(series).content, "number"});
  }
  for (const auto& layer : hidden_layers(all)) {
    std::vector<Cell> row{{text(label_of(layer)), ""}};
    for (const auto& series : all) {
      row.push_back({text(variance_text(mean_second_moment(series, layer))), "number"});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Finding smallest_variance(const std::vector<RunSeries>& all) {
  const std::string claim =
      "Of the three, AdaAct has the smallest averaged activation variance in every hidden layer.";
  const Finding without_numbers{
      claim, "There is no variance of every run: " + accuracy_list(all, final_top1) + ".",
      Finding::Verdict::Open};
  const auto layers = hidden_layers(all);
  const bool has_diverged = std::any_of(all.begin(), all.end(), [](const RunSeries& series) {
    return !divergence_text(series.runs).empty();
  });
  if (layers.empty() || has_diverged) return without_numbers;
  std::string measured;
  std::string exceptions;
  for (const auto& layer : layers) {
    const auto comparison = compare(all, layer);
    if (!comparison.complete) return without_numbers;
    measured += (measured.empty() ? "" : "; ") + label_of(layer) + ":";
    for (std::size_t index = 0; index < all.size(); ++index) {
      measured += (index == 0 ? " " : ", ") + all[index].name + " " +
                  variance_text(comparison.variances[index]);
    }
    const double adaacts = comparison.variances.front();  // the plan's first
    if (adaacts > comparison.smallest()) {
      exceptions += (exceptions.empty() ? "" : ", ") + label_of(layer);
    }
  }
  if (exceptions.empty()) return {claim, measured + ".", Finding::Verdict::Agrees};
  return {claim, "Not in " + exceptions + ". " + measured + ".", Finding::Verdict::Disagrees};
}

std::vector<Lead> leads_of(const std::string& leader, const std::vector<std::string>& others,
                           const std::vector<RunSeries>& all,
                           OverSeeds (*accuracy)(const RunSeries&)) {
  std::vector<Lead> leads;
  leads.reserve(others.size());
  for (const auto& other : others) {
    leads.push_back({leader + " and " + other,
                     accuracy(series_named(leader, all)) - accuracy(series_named(other, all))});
  }
  return leads;
}

Finding highest_accuracy(const std::vector<RunSeries>& all) {
  const auto [verdict, reason] = judge(leads_of("AdaAct", {"SGD", "Adam"}, all, final_over_seeds));
  return {
      "At the end of training AdaAct has a higher test accuracy than SGD with momentum and Adam.",
      accuracy_list(all, final_top1) + "." + reason, verdict};
}

Finding fastest_beginning(const std::vector<RunSeries>& all) {
  const auto [verdict, reason] = judge(leads_of("Adam", {"AdaAct", "SGD"}, all, early_over_seeds));
  return {"Early in training Adam converges fastest of the three.",
          "Mean test accuracy over the first tenth of the epochs: " +
              accuracy_list(all, early_top1) + "." + reason,
          verdict};
}

class FigActivationVariance : public Experiment {
 public:
  std::string name() const override { return "fig-activation-variance"; }
  std::string title() const override { return "Figures 1 and 8: activation variance"; }
  std::string shows() const override {
    return "activation variance by layer and test accuracy of LeNet-5: AdaAct, SGD, Adam";
  }

  ExperimentPlan plan(const ExperimentForm& form) const override {
    ExperimentPlan plan;
    for (const char* optimizer : {"adaact", "sgd", "adam"}) {
      for (const auto seed : seeds_of(form, {0, 1, 2})) {
        plan.runs.push_back(lenet_run(optimizer, form, seed));
      }
    }
    return plan;
  }

  void draw(const Found& found, Page& page) const override {
    const auto all = series_of(found);
    page.add_paragraph(
        "Each value of a layer's flattened input has a variance over the images of a batch. Their "
        "mean over all values and all steps of the training is the averaged activation variance. "
        "Beside it stands the second moment E[a²] that AdaAct scales its updates by: of what a "
        "convolution reads it is the mean over patches, padding included.");
    page.add_paragraph(kHiddenLayers, "note");
    page.add_figures(
        {page.figure(by_layer(all, "Averaged activation variance", "variance", averaged_variance),
                     "averaged_activation_variance", "Mean of all steps of the training."),
         page.figure(by_layer(all, "Second moment that AdaAct uses", "E[a²]", mean_second_moment),
                     "averaged_second_moment", "Mean over the epochs, of the last step of each."),
         page.figure(accuracy_plot(all, ImageSet::Test), "lenet5_test_accuracy",
                     "After each epoch.")});
    page.add_table(variance_table(all));
    page.add_table(moment_table(all));
    page.add_table(accuracy_table(all));
    page.add_paragraph("As the training goes on, the mean of each epoch:");
    std::vector<Markup> over_epochs;
    for (const auto& layer : hidden_layers(all)) {
      over_epochs.push_back(page.figure(variance_over_epochs(all, layer),
                                        "activation_variance_" + layer, "Mean of each epoch."));
    }
    page.add_figures(over_epochs);
  }

  std::vector<Finding> findings(const Found& found) const override {
    const auto all = series_of(found);
    return open_until_complete(
        found, {smallest_variance(all), highest_accuracy(all), fastest_beginning(all)});
  }

  nlohmann::ordered_json to_json(const Found& found) const override {
    const auto all = series_of(found);
    auto json = nlohmann::ordered_json::array();
    for (const auto& series : all) {
      auto& entry = json.emplace_back(accuracy_json(series));
      for (const auto& layer : hidden_layers(all)) {
        entry["layers"][layer] = {{"variance", averaged_variance(series, layer)},
                                  {"second_moment", mean_second_moment(series, layer)}};
      }
    }
    return {{"series", json}};
  }
};

}  // namespace

const Experiment& fig_activation_variance() {
  static const FigActivationVariance experiment;
  return experiment;
}

}  // namespace adaact
