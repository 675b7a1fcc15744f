#include "sweep/sweep_page.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "report/format.h"
#include "report/named_runs.h"
#include "report/page.h"
#include "report/palette.h"
#include "report/plot.h"
#include "report/run_groups.h"
#include "report/run_plots.h"
#include "report/run_tables.h"
#include "sweep/origin.h"

namespace adaact {
namespace {

using Trials = std::vector<TrialResult>;

std::vector<std::string> optimizers_of(const Trials& trials) {
  std::vector<std::string> names;
  for (const auto& each : trials) {
    const auto& name = each.trial.config.optimizer;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

/// The accuracy of each learning rate of an optimizer, in percent: that of the best weight decay, after the
/// trial's last epoch or, if `epoch` is not 0, after that one.
std::vector<Point> accuracy_points(const Trials& trials, const std::string& optimizer,
                                   std::size_t epoch) {
  std::map<double, double> best;
  for (const auto& each : trials) {
    if (each.trial.config.optimizer != optimizer || each.is_lost()) continue;
    if (each.accuracies.empty() || each.accuracies.size() < epoch) continue;
    const auto accuracy = epoch == 0 ? each.accuracies.back() : each.accuracies[epoch - 1];
    const auto known = best.emplace(each.trial.learning_rate, accuracy).first;
    known->second = std::max(known->second, accuracy);
  }
  std::vector<Point> points;
  for (const auto& [rate, accuracy] : best) points.push_back({rate, 100.0 * accuracy});
  return points;
}

Plot accuracy_plot(const Trials& trials, const std::string& title, std::size_t epoch) {
  Axis rates{"learning rate"};
  rates.scale = Scale::Logarithmic;
  Axis accuracies{"test top-1"};
  accuracies.unit = " %";
  Plot plot{title, std::move(rates), std::move(accuracies), {}};
  for (const auto& optimizer : optimizers_of(trials)) {
    plot.series.push_back(
        {optimizer, accuracy_points(trials, optimizer, epoch), plot.series.size()});
  }
  return plot;
}

/// A line from the best trial of each optimizer down to its learning rate, in the colour of its curve.
void mark_best(const Trials& trials, Plot& plot) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& series : plot.series) {
    for (const auto& point : series.points) least = std::min(least, point.y);
  }
  const auto curves = plot.series;
  for (const auto& best : best_trials(trials)) {
    const auto& trial = best.result.trial;
    const auto curve = std::find_if(curves.begin(), curves.end(), [&](const Series& series) {
      return series.name == trial.config.optimizer;
    });
    if (curve == curves.end() || !best.result.accuracy()) continue;
    const auto accuracy = 100.0 * *best.result.accuracy();
    plot.series.push_back({"best of " + curve->name + ": " + shortest(trial.learning_rate),
                           {{trial.learning_rate, least}, {trial.learning_rate, accuracy}},
                           curve->style + kSeriesColours.size()});
  }
}

/// The last epoch that every trial has which was not lost; 0 where there is none.
std::size_t common_epoch(const Trials& trials) {
  auto common = std::numeric_limits<std::size_t>::max();
  for (const auto& each : trials) {
    if (!each.is_lost()) common = std::min(common, each.accuracies.size());
  }
  return common == std::numeric_limits<std::size_t>::max() ? 0 : common;
}

std::string state_text(const TrialResult& result) {
  if (result.state == TrialState::Diverged) {
    return "diverged in epoch " + std::to_string(result.diverged_in_epoch);
  }
  if (result.state == TrialState::Failed) return "failed: " + result.error;
  return to_string(result.state);
}

std::string percent_of(const TrialResult& result) {
  const auto accuracy = result.accuracy();
  return accuracy ? percent(*accuracy) : kNothing;
}

Table table_of_best(const Trials& trials) {
  Table table{"The best of each optimizer", {}, {}};
  table.heading.push_back({text("Optimizer"), ""});
  for (const char* heading : {"Learning rate", "Weight decay", "Test top‑1"}) {
    table.heading.push_back({text(heading), "number"});
  }
  table.heading.push_back({text("Remark"), ""});
  for (const auto& best : best_trials(trials)) {
    const auto& trial = best.result.trial;
    table.rows.push_back({{text(trial.config.optimizer), ""},
                          number_cell(shortest(trial.learning_rate)),
                          number_cell(shortest(trial.weight_decay)),
                          number_cell(percent_of(best.result)),
                          {text(remark_on(best)), ""}});
  }
  return table;
}

Table table_of_trials(const Trials& trials) {
  Table table{"All trials, from best to worst", {{text("Trial"), ""}}, {}};
  for (const char* heading :
       {"Learning rate", "Weight decay", "Epochs", "Test top‑1", "Train loss", "Training time"}) {
    table.heading.push_back({text(heading), "number"});
  }
  table.heading.push_back({text("State"), ""});
  for (const auto& each : from_best_to_worst(trials)) {
    const bool begun = !each.accuracies.empty();
    table.rows.push_back({{text(each.trial.name), ""},
                          number_cell(shortest(each.trial.learning_rate)),
                          number_cell(shortest(each.trial.weight_decay)),
                          number_cell(std::to_string(each.accuracies.size()) + " of " +
                                      std::to_string(each.trial.config.epochs)),
                          number_cell(percent_of(each)),
                          number_cell(begun ? decimal(each.train_loss) : kNothing),
                          number_cell(begun ? duration(each.seconds) : kNothing),
                          {text(state_text(each)), ""}});
  }
  return table;
}

std::string lead_of_sweep(const Trials& trials) {
  const auto& base = trials.front().trial.config;
  auto sentence = base.model + " on " + base.dataset + ", " + std::to_string(trials.size()) +
                  (trials.size() == 1 ? " trial" : " trials") + " of " +
                  std::to_string(base.epochs) + (base.epochs == 1 ? " epoch. " : " epochs. ");
  const auto best = best_trials(trials);
  if (best.empty()) return sentence + "None was trained to its end.";
  const auto winner =
      std::max_element(best.begin(), best.end(), [](const BestTrial& left, const BestTrial& right) {
        return left.result.accuracy().value_or(0.0) < right.result.accuracy().value_or(0.0);
      });
  return sentence + "Best test accuracy: " + percent_of(winner->result) + ", " +
         winner->result.trial.name + ".";
}

void add_curves_of_finished(const Trials& trials, Page& page) {
  std::vector<std::filesystem::path> folders;
  for (const auto& each : from_best_to_worst(trials)) {
    if (each.state == TrialState::Finished) folders.push_back(each.folder);
  }
  if (folders.empty()) return;
  const auto runs = read_runs(folders);
  const auto groups = each_alone(runs);
  page.add_heading("Trials that were trained to the end");
  page.add_figures(
      {page.figure(course_plot(groups, Quantity::TestAccuracy, Against::Epochs),
                   "test_accuracy_epochs", "After each epoch."),
       page.figure(course_plot(groups, Quantity::TrainLoss, Against::Epochs), "train_loss_epochs",
                   "Moving average over 2 % of each run's steps, where that is more than one.")});
  const auto common = common_settings(groups);
  const auto summary =
      element("summary", text(std::to_string(common.rows.size()) + " settings are the same"));
  page.add(element("details", summary + to_markup(common)));
}

}  // namespace

void write_sweep_page(const Trials& trials, const std::filesystem::path& path,
                      const ReportOptions& options) {
  Page page(path, options.title.empty() ? "Sweep of learning rates" : options.title);
  page.add_paragraph(lead_of_sweep(trials), "lead");
  page.add_table(table_of_best(trials));
  page.add_paragraph(
      "Rates are chosen by the accuracies that are shown, so those of the best are a little "
      "optimistic: on new data they will be lower.",
      "note");

  page.add_heading("Accuracy against learning rate");
  const auto common = common_epoch(trials);
  const bool stopped = std::any_of(trials.begin(), trials.end(), [](const TrialResult& each) {
    return each.state == TrialState::StoppedEarly;
  });
  auto final_plot = accuracy_plot(trials, "Test accuracy against learning rate", 0);
  mark_best(trials, final_plot);
  std::vector<Markup> figures{page.figure(
      final_plot, "accuracy_by_rate",
      stopped ? "Each trial where it ended: those that were stopped early trained for fewer epochs."
              : "After the last epoch.")};
  if (stopped && common > 0) {
    const auto epoch = std::to_string(common);
    figures.push_back(page.figure(
        accuracy_plot(trials, "Test accuracy after epoch " + epoch, common),
        "accuracy_by_rate_common", "All trials after the last epoch that they have in common."));
  }
  page.add_figures(figures);

  page.add_heading("All trials");
  page.add_table(table_of_trials(trials));
  add_curves_of_finished(trials, page);
  add_origin_of_page(options, page);
  page.write();
  if (figures.size() == 1) page.remove_figure("accuracy_by_rate_common");
}

}  // namespace adaact
