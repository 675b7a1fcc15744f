#include "experiments/page/curves.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <utility>

#include <c10/util/Exception.h>

#include "experiments/page/training_phases.h"
#include "experiments/shelf/divergence.h"
#include "report/format.h"
#include "report/mean_and_error.h"

namespace adaact {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double mean_of(const std::vector<double>& values) {
  return values.empty() ? kNaN : mean_and_error(values).mean;
}

/// Test accuracies after each epoch. A run that diverged has that of guessing in the epochs that it
/// lacks.
std::vector<double> accuracies_of(const RunHistory& run) {
  std::vector<double> accuracies;
  for (const auto& epoch : run.epochs) accuracies.push_back(epoch.test.top1);
  if (run.divergence) {
    accuracies.resize(static_cast<std::size_t>(run.config.epochs),
                      accuracy_of_guessing(run.config.dataset));
  }
  return accuracies;
}

/// Accuracies on the batches that a run was trained with, after each epoch that it came to.
std::vector<double> train_accuracies_of(const RunHistory& run) {
  std::vector<double> accuracies;
  for (const auto& epoch : run.epochs) accuracies.push_back(epoch.train_top1);
  return accuracies;
}

/// The mean of the runs after each epoch that all of them have.
std::vector<MeanAndError> mean_curve(const std::vector<const RunHistory*>& runs,
                                     std::vector<double> (*accuracies)(const RunHistory& run)) {
  std::vector<std::vector<double>> curves;
  curves.reserve(runs.size());
  for (const auto* run : runs) curves.push_back(accuracies(*run));
  return mean_of_curves(curves);
}

Point percent_at(double x, const MeanAndError& accuracy) {
  return with_band(x, {100.0 * accuracy.mean, 100.0 * accuracy.standard_error});
}

double last_of(const std::vector<double>& accuracies) { return accuracies.back(); }

double best_of(const std::vector<double>& accuracies) {
  return *std::max_element(accuracies.begin(), accuracies.end());
}

/// One number of each run that has an accuracy.
std::vector<double> of_each_run(const RunSeries& series,
                                double (*number)(const std::vector<double>& accuracies)) {
  std::vector<double> numbers;
  for (const auto* run : series.runs) {
    const auto accuracies = accuracies_of(*run);
    if (!accuracies.empty()) numbers.push_back(number(accuracies));
  }
  return numbers;
}

OverSeeds over_seeds(const RunSeries& series,
                     double (*number)(const std::vector<double>& accuracies)) {
  const auto values = of_each_run(series, number);
  if (values.empty()) return {kNaN, kNaN, 0, 0};
  const auto [mean, error] = mean_and_error(values);
  const auto seeds = seeds_in(series.runs).size();
  return {mean, error, seeds, seeds};
}

std::string with_error(const std::vector<double>& accuracies) {
  if (accuracies.empty()) return kNothing;
  const auto [mean, error] = mean_and_error(accuracies);
  return percent(mean) + (std::isfinite(error) ? " ± " + percent(error) : "");
}

}  // namespace

std::vector<MeanAndError> mean_of_curves(const std::vector<std::vector<double>>& curves) {
  std::vector<MeanAndError> means;
  const auto is_there = [&](const std::vector<double>& curve) {
    return curve.size() > means.size();
  };
  while (!curves.empty() && std::all_of(curves.begin(), curves.end(), is_there)) {
    std::vector<double> at_this_place;
    at_this_place.reserve(curves.size());
    for (const auto& curve : curves) at_this_place.push_back(curve[means.size()]);
    means.push_back(mean_and_error(at_this_place));
  }
  return means;
}

Point with_band(double x, const MeanAndError& y) {
  return {x, y.mean, std::isfinite(y.standard_error) ? y.standard_error : 0.0};
}

std::set<std::uint64_t> seeds_in(const std::vector<const RunHistory*>& runs) {
  std::set<std::uint64_t> seeds;
  for (const auto* run : runs) seeds.insert(run->config.seed);
  return seeds;
}

std::string count_text(const std::vector<const RunHistory*>& runs) {
  const auto seeds = seeds_in(runs).size();
  const auto text = std::to_string(seeds) + (seeds == 1 ? " seed" : " seeds");
  return seeds == runs.size() ? text : std::to_string(runs.size()) + " runs of " + text;
}

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
    const auto means = mean_curve(series.runs, train ? train_accuracies_of : accuracies_of);
    for (std::size_t epoch = 0; epoch < means.size(); ++epoch) {
      curve.points.push_back(percent_at(static_cast<double>(epoch + 1), means[epoch]));
    }
    plot.series.push_back(std::move(curve));
  }
  return plot;
}

std::vector<MeanAndError> mean_test_accuracies(const std::vector<const RunHistory*>& runs) {
  return mean_curve(runs, accuracies_of);
}

Plot accuracy_by_seconds_plot(const std::vector<RunSeries>& all) {
  Axis axis{"seconds of training"};
  axis.from_zero = true;
  axis.tight = true;
  Plot plot{"Test accuracy against seconds", axis, {"test top-1", " %"}, {}};
  for (const auto& series : all) {
    Series curve{series.name, {}, series.style};
    const auto means = mean_test_accuracies(series.runs);
    const auto seconds = fastest_seconds(series.runs);
    for (std::size_t epoch = 0; epoch < std::min(means.size(), seconds.size()); ++epoch) {
      curve.points.push_back(percent_at(seconds[epoch], means[epoch]));
    }
    plot.series.push_back(std::move(curve));
  }
  return plot;
}

const RunHistory* fastest_of(const std::vector<const RunHistory*>& runs) {
  const RunHistory* fastest = nullptr;
  for (const auto* run : runs) {
    if (run->divergence || run->epochs.empty()) continue;
    const bool is_faster =
        fastest == nullptr || run->epochs.back().seconds < fastest->epochs.back().seconds;
    if (is_faster) fastest = run;
  }
  return fastest;
}

std::optional<double> fastest_training(const std::vector<const RunHistory*>& runs) {
  const auto* fastest = fastest_of(runs);
  return fastest == nullptr ? std::nullopt : std::optional(fastest->epochs.back().seconds);
}

std::vector<double> fastest_seconds(const std::vector<const RunHistory*>& runs) {
  std::vector<double> seconds;
  if (const auto* fastest = fastest_of(runs)) {
    for (const auto& epoch : fastest->epochs) seconds.push_back(epoch.seconds);
  }
  return seconds;
}

double final_top1_of_run(const RunHistory& run) {
  const auto accuracies = accuracies_of(run);
  return accuracies.empty() ? kNaN : last_of(accuracies);
}

double final_top1(const RunSeries& series) { return mean_of(of_each_run(series, last_of)); }

double best_top1(const RunSeries& series) { return mean_of(of_each_run(series, best_of)); }

double early_top1(const RunSeries& series) {
  return mean_of(of_each_run(series, mean_of_first_tenth));
}

std::string state_of(const RunSeries& series) {
  return series.runs.empty() ? "not carried out yet" : divergence_text(series.runs);
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
  for (const char* heading : {"Runs", "Final test top‑1", "Best test top‑1"}) {
    table.heading.push_back({text(heading), "number"});
  }
  for (const auto& series : all) {
    table.rows.push_back({series_cell(series),
                          {text(count_text(series.runs)), "number"},
                          {text(with_error(of_each_run(series, last_of))), "number"},
                          {text(with_error(of_each_run(series, best_of))), "number"}});
  }
  return table;
}

nlohmann::ordered_json accuracy_json(const RunSeries& series) {
  return {{"name", series.name},
          {"seeds", seeds_in(series.runs).size()},
          {"runs", series.runs.size()},
          {"state", state_of(series)},
          {"diverged", divergences_json(series.runs)},
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

OverSeeds final_over_seeds(const RunSeries& series) { return over_seeds(series, last_of); }

OverSeeds early_over_seeds(const RunSeries& series) {
  return over_seeds(series, mean_of_first_tenth);
}

OverSeeds operator-(const OverSeeds& one, const OverSeeds& other) {
  return {one.mean - other.mean, std::hypot(one.standard_error, other.standard_error),
          std::min(one.seeds, other.seeds), std::max(one.most_seeds, other.most_seeds)};
}

OverSeeds average(const std::vector<OverSeeds>& parts) {
  if (parts.empty()) return {kNaN, kNaN, 0, 0};
  OverSeeds mean{0.0, 0.0, parts.front().seeds, 0};
  for (const auto& part : parts) {
    mean.mean += part.mean;
    mean.standard_error = std::hypot(mean.standard_error, part.standard_error);
    mean.seeds = std::min(mean.seeds, part.seeds);
    mean.most_seeds = std::max(mean.most_seeds, part.most_seeds);
  }
  mean.mean /= static_cast<double>(parts.size());
  mean.standard_error /= static_cast<double>(parts.size());
  return mean;
}

Judgement judge(const std::vector<Lead>& leads) {
  std::string close;
  for (const auto& [of_what, size] : leads) {
    if (size.seeds < kFewestSeeds) {
      return {Finding::Verdict::Open, size.most_seeds == 1
                                          ? " One seed each: no verdict."
                                          : " Fewer than three seeds on a side: no verdict."};
    }
    const double margin = 2.0 * size.standard_error;
    if (std::abs(size.mean) > margin) continue;
    if (!std::isfinite(size.mean)) {
      return {Finding::Verdict::Open, " " + of_what + ": no accuracy."};
    }
    close += (close.empty() ? " Too close to call, within twice the standard error: " : ", ") +
             of_what + " (" + points(size.mean) + ", twice the error is " + points(margin) + ")";
  }
  const bool disagrees = std::any_of(leads.begin(), leads.end(), [](const Lead& lead) {
    return lead.size.mean < -2.0 * lead.size.standard_error;
  });
  if (disagrees) return {Finding::Verdict::Disagrees, ""};
  if (close.empty()) return {Finding::Verdict::Agrees, ""};
  return {Finding::Verdict::Open, close + "."};
}

namespace {

/// Whether each setting has as many seeds as a verdict asks for, or as were planned: other seeds than the plan's
/// are as good.
bool has_enough_runs(const Found& found) {
  std::map<std::string, std::pair<std::set<std::uint64_t>, std::set<std::uint64_t>>> seeds;
  for (const auto& run : found.runs) {
    auto& [planned, there] = seeds[run.planned.series];
    planned.insert(run.planned.config.seed);
    if (run.history) there.insert(run.planned.config.seed);
  }
  return std::all_of(seeds.begin(), seeds.end(), [](const auto& of_series) {
    const auto& [planned, there] = of_series.second;
    return there.size() >= std::min(planned.size(), kFewestSeeds);
  });
}

}  // namespace

std::vector<Finding> open_until_complete(const Found& found, std::vector<Finding> findings) {
  if (has_enough_runs(found) && found.missing().measurements.empty()) return findings;
  for (auto& finding : findings) {
    finding.measured = "Not all of its runs have been carried out yet. So far: " + finding.measured;
    finding.verdict = Finding::Verdict::Open;
  }
  return findings;
}

}  // namespace adaact
