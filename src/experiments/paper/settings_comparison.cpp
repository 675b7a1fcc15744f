#include "experiments/paper/settings_comparison.h"

#include <cmath>

#include "experiments/paper/paper_runs.h"
#include "report/format.h"

namespace adaact {
namespace {

/// As in the paper, the test accuracy stands in the legend.
Plot with_accuracies(Plot plot, const std::vector<RunSeries>& all) {
  for (std::size_t index = 0; index < all.size(); ++index) {
    plot.series[index].name += ": " + percent(final_top1(all[index]));
  }
  return plot;
}

/// What a setting gains on the first one, and what each point of it costs in time.
struct Gain {
  OverSeeds accuracy;
  double time = 0.0;  // of training, as a multiple of the first one's; NaN where it is not known

  /// More time, as a part of the first one's, for each point of accuracy.
  double time_of_a_point() const { return (time - 1.0) / (100.0 * accuracy.mean); }
};

Gain gain_of(const RunSeries& series, const RunSeries& first) {
  const auto seconds = fastest_training(series.runs);
  const auto firsts = fastest_training(first.runs);
  return {final_over_seeds(series) - final_over_seeds(first),
          seconds && firsts ? *seconds / *firsts : std::nan("")};
}

std::string points_with_error(const OverSeeds& accuracy) {
  const auto mean = points(accuracy.mean);
  return std::isfinite(accuracy.standard_error) ? mean + " ± " + points(accuracy.standard_error)
                                                : mean;
}

Table cost_table(const std::vector<RunSeries>& all) {
  Table table{"What accuracy costs", {{text("Run"), ""}}, {}};
  for (const char* heading : {"Beyond the first", "Time to the first's", "More time for a point"}) {
    table.heading.push_back({text(heading), "number"});
  }
  for (const auto& series : all) {
    if (&series == &all.front()) {
      table.rows.push_back(
          {series_cell(series), number_cell(kNothing), number_cell("1"), number_cell(kNothing)});
      continue;
    }
    const auto gain = gain_of(series, all.front());
    const bool is_gain = gain.accuracy.mean > 0.0 && std::isfinite(gain.time);
    table.rows.push_back({series_cell(series), number_cell(points_with_error(gain.accuracy)),
                          number_cell(std::isfinite(gain.time) ? fixed(gain.time, 2) : kNothing),
                          number_cell(is_gain ? percent(gain.time_of_a_point()) : kNothing)});
  }
  return table;
}

}  // namespace

ExperimentPlan ComparedSettings::plan(const ExperimentForm& form) const {
  ExperimentPlan plan;
  for (const auto& setting : comparison_.settings) {
    for (const auto seed : seeds_of(form, comparison_.seeds)) {
      PlannedRun run;
      run.series = setting.series;
      run.config = paper_run(setting.optimizer, comparison_.model,
                             dataset_of(form, comparison_.dataset), seed);
      run.config.epochs = comparison_.epochs;
      auto options = nlohmann::json::parse(run.config.optimizer_options);
      options.update(setting.changed_options);
      run.config.optimizer_options = options.dump();
      if (form.quick) shrink(run.config);
      plan.runs.push_back(std::move(run));
    }
  }
  return plan;
}

void ComparedSettings::draw(const Found& found, Page& page) const {
  const auto all = series_of(found);
  for (const auto& paragraph : comparison_.paragraphs) page.add_paragraph(paragraph);
  const auto& prefix = comparison_.file_prefix;
  page.add_figures(
      {page.figure(accuracy_plot(all, ImageSet::Train), prefix + "_train_accuracy",
                   "Of the batches of each epoch, augmented."),
       page.figure(with_accuracies(accuracy_plot(all, ImageSet::Test), all),
                   prefix + "_test_accuracy", "After each epoch; in the legend, after the last.")});
  page.add_table(accuracy_table(all));
  if (!comparison_.shows_cost) return;
  page.add_table(cost_table(all));
  page.add_paragraph(
      "Time is that of training without evaluation, of the fastest run of each setting: others may "
      "have shared their machine. It can be compared where runs are of one machine and precision, "
      "which the list of runs shows.",
      "note");
}

std::vector<Finding> ComparedSettings::findings(const Found& found) const {
  return open_until_complete(found, comparison_.findings(series_of(found)));
}

nlohmann::ordered_json ComparedSettings::to_json(const Found& found) const {
  const auto all = series_of(found);
  auto json = nlohmann::ordered_json::array();
  for (const auto& series : all) {
    json.push_back(accuracy_json(series));
    if (!comparison_.shows_cost) continue;
    const auto gain = gain_of(series, all.front());
    json.back()["gain"] = gain.accuracy.mean;
    json.back()["time_to_the_first"] = gain.time;
  }
  return {{"series", json}};
}

}  // namespace adaact
