#include "experiments/curves.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include <c10/util/Exception.h>

#include "report/format.h"
#include "report/mean_and_error.h"

namespace adaact {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double mean_of(const std::vector<double>& values) {
  return values.empty() ? kNaN : mean_and_error(values).mean;
}

std::vector<double> final_accuracies_of(const RunSeries& series) {
  std::vector<double> accuracies;
  for (const auto* run : series.runs) {
    if (!run->epochs.empty()) accuracies.push_back(run->epochs.back().test.top1);
  }
  return accuracies;
}

std::vector<double> best_accuracies_of(const RunSeries& series) {
  std::vector<double> accuracies;
  for (const auto* run : series.runs) {
    if (const auto* best = run->best_epoch()) accuracies.push_back(best->test.top1);
  }
  return accuracies;
}

/// Of the seeds that came as far as this epoch.
double mean_top1(const RunSeries& series, std::size_t epoch, ImageSet images) {
  std::vector<double> accuracies;
  for (const auto* run : series.runs) {
    if (epoch >= run->epochs.size()) continue;
    const auto& metrics = run->epochs[epoch];
    accuracies.push_back(images == ImageSet::Train ? metrics.train_top1 : metrics.test.top1);
  }
  return mean_of(accuracies);
}

std::size_t epochs_of(const RunSeries& series) {
  std::size_t most = 0;
  for (const auto* run : series.runs) most = std::max(most, run->epochs.size());
  return most;
}

std::string with_error(const std::vector<double>& accuracies) {
  if (accuracies.empty()) return kNothing;
  const auto [mean, error] = mean_and_error(accuracies);
  return percent(mean) + (std::isfinite(error) ? " ± " + percent(error) : "");
}

}  // namespace

std::vector<RunSeries> series_of(const Found& found) {
  std::vector<RunSeries> all;
  for (const auto& run : found.runs) {
    const auto& name = run.planned.series;
    auto series = std::find_if(all.begin(), all.end(),
                               [&](const RunSeries& each) { return each.name == name; });
    if (series == all.end()) series = all.insert(all.end(), {name, all.size(), {}});
    if (run.history) series->runs.push_back(&*run.history);
  }
  return all;
}

const RunSeries& series_named(const std::string& name, const std::vector<RunSeries>& all) {
  for (const auto& series : all) {
    if (series.name == name) return series;
  }
  TORCH_CHECK(false, "adaact: there are no runs called '", name, "' in the plan");
}

Axis epoch_axis() {
  Axis axis{"epochs"};
  axis.whole_numbers = true;
  axis.from_zero = true;
  axis.tight = true;
  return axis;
}

Plot accuracy_plot(const std::vector<RunSeries>& all, ImageSet images) {
  const bool train = images == ImageSet::Train;
  Plot plot{train ? "Train accuracy" : "Test accuracy",
            epoch_axis(),
            {train ? "train top-1" : "test top-1"},
            {}};
  plot.y.unit = " %";
  for (const auto& series : all) {
    Series curve{series.name, {}, series.style};
    for (std::size_t epoch = 0; epoch < epochs_of(series); ++epoch) {
      curve.points.push_back(
          {static_cast<double>(epoch + 1), 100.0 * mean_top1(series, epoch, images)});
    }
    plot.series.push_back(std::move(curve));
  }
  return plot;
}

double final_top1(const RunSeries& series) { return mean_of(final_accuracies_of(series)); }

double best_top1(const RunSeries& series) { return mean_of(best_accuracies_of(series)); }

double early_top1(const RunSeries& series) {
  std::vector<double> accuracies;
  for (std::size_t epoch = 0; 10 * epoch < epochs_of(series); ++epoch) {
    accuracies.push_back(mean_top1(series, epoch, ImageSet::Test));
  }
  return mean_of(accuracies);
}

std::optional<std::int64_t> epoch_of_divergence(const RunHistory& run) {
  for (const auto& epoch : run.epochs) {
    if (!std::isfinite(epoch.train_loss) || !std::isfinite(epoch.test.loss)) return epoch.epoch + 1;
  }
  return std::nullopt;
}

std::string state_of(const RunSeries& series) {
  if (series.runs.empty()) return "not carried out yet";
  std::string epochs;
  for (const auto* run : series.runs) {
    const auto epoch = epoch_of_divergence(*run);
    if (epoch) epochs += (epochs.empty() ? "" : ", ") + std::to_string(*epoch);
  }
  return epochs.empty() ? "" : "diverged in epoch " + epochs;
}

Cell series_cell(const RunSeries& series) {
  auto content = element("span", {{"class", "name"}},
                         swatch(series.style) + element("span", text(series.name)));
  const auto state = state_of(series);
  if (!state.empty()) content += element("span", {{"class", "state"}}, text(state));
  return {content, ""};
}

Table accuracy_table(const std::vector<RunSeries>& all) {
  Table table{"Test accuracy", {{text("Run"), ""}}, {}};
  for (const char* heading : {"Seeds", "Final test top‑1", "Best test top‑1"}) {
    table.heading.push_back({text(heading), "number"});
  }
  for (const auto& series : all) {
    table.rows.push_back({series_cell(series),
                          {text(std::to_string(series.runs.size())), "number"},
                          {text(with_error(final_accuracies_of(series))), "number"},
                          {text(with_error(best_accuracies_of(series))), "number"}});
  }
  return table;
}

nlohmann::ordered_json accuracy_json(const RunSeries& series) {
  return {{"name", series.name},
          {"seeds", series.runs.size()},
          {"state", state_of(series)},
          {"final_test_top1", final_top1(series)},
          {"best_test_top1", best_top1(series)}};
}

std::string accuracy_list(const std::vector<RunSeries>& all, double (*accuracy)(const RunSeries&)) {
  std::string list;
  for (const auto& series : all) {
    const auto state = state_of(series);
    list += (list.empty() ? "" : ", ") + series.name + " " + percent(accuracy(series)) +
            (state.empty() ? "" : " (" + state + ")");
  }
  return list;
}

std::string points(double fraction) {
  if (!std::isfinite(fraction)) return kNothing;
  char result[32];
  std::snprintf(result, sizeof(result), "%.2f points", 100.0 * fraction);
  return result;
}

Finding::Verdict verdict_on_lead(double higher, double lower) {
  const double lead = higher - lower;
  if (lead >= kSmallestDifference) return Finding::Verdict::Agrees;
  if (lead <= -kSmallestDifference) return Finding::Verdict::Disagrees;
  return Finding::Verdict::Open;
}

std::string too_close(Finding::Verdict verdict) {
  if (verdict != Finding::Verdict::Open) return "";
  return " Less than " + points(kSmallestDifference) + " apart is not called a difference.";
}

std::vector<Finding> open_until_complete(const Found& found, std::vector<Finding> findings) {
  if (found.is_complete()) return findings;
  for (auto& finding : findings) {
    finding.measured = "Not all of its runs have been carried out yet.";
    finding.verdict = Finding::Verdict::Open;
  }
  return findings;
}

}  // namespace adaact
