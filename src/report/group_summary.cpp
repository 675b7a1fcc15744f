#include "report/group_summary.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include <nlohmann/json.hpp>

#include "io/json_text.h"
#include "report/format.h"

namespace adaact {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::string learning_rate(const RunConfig& config) {
  const auto options = try_parse_json<nlohmann::json>(config.optimizer_options).value;
  const bool known = options.is_object() && options.contains("lr");
  return known && options.at("lr").is_number() ? rounded(options.at("lr").get<double>()) : kNothing;
}

std::string epochs_of(const RunGroup& group) {
  auto least = group.runs.front()->history.epochs.size();
  auto most = least;
  for (const auto* run : group.runs) {
    least = std::min(least, run->history.epochs.size());
    most = std::max(most, run->history.epochs.size());
  }
  const auto planned = std::to_string(group.config().epochs);
  if (least != most)
    return std::to_string(least) + " to " + std::to_string(most) + " of " + planned;
  const auto done = std::to_string(least);
  return done == planned ? planned : done + " of " + planned;
}

/// "1 of 3 seeds " where there are several and not all are meant.
std::string of_seeds(std::size_t count, const RunGroup& group) {
  if (count == group.runs.size()) return "";
  return std::to_string(count) + " of " + std::to_string(group.runs.size()) + " seeds ";
}

std::string state_of(const RunGroup& group) {
  std::vector<std::string> lost_in;
  std::size_t unfinished = 0;
  bool any_epoch = false;
  for (const auto* run : group.runs) {
    const auto lost = run->history.diverged_in_epoch();
    if (lost) lost_in.push_back(std::to_string(*lost));
    if (!lost && !run->history.finished) ++unfinished;
    any_epoch = any_epoch || !run->history.epochs.empty();
  }
  std::string state;
  if (!lost_in.empty()) {
    std::string list;
    for (const auto& epoch : lost_in) list += (list.empty() ? "" : ", ") + epoch;
    state = of_seeds(lost_in.size(), group) + "diverged in epoch " + list;
  }
  if (unfinished == 0) return state;
  return state + (state.empty() ? "" : ", ") + of_seeds(unfinished, group) +
         (any_epoch ? "not finished" : "no epoch finished yet");
}

double median_speed(const RunGroup& group) {
  std::vector<double> speeds;
  for (const auto* run : group.runs) {
    for (const auto& epoch : run->history.epochs) {
      if (std::isfinite(epoch.images_per_second)) speeds.push_back(epoch.images_per_second);
    }
  }
  if (speeds.empty()) return kUnknown;
  const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
  std::nth_element(speeds.begin(), middle, speeds.end());
  return *middle;
}

/// Over the runs that have finished an epoch.
template <typename Number>
Compared over_seeds_of(const RunGroup& group, Number number) {
  std::vector<double> values;
  for (const auto* run : group.runs) {
    if (!run->history.epochs.empty()) values.push_back(number(run->history));
  }
  Compared compared;
  if (!values.empty()) compared.value = mean_and_error(values);
  return compared;
}

double mean_seconds(const RunGroup& group) {
  std::vector<double> seconds;
  for (const auto* run : group.runs) {
    if (!run->history.steps.empty() || !run->history.epochs.empty()) {
      seconds.push_back(run->history.seconds());
    }
  }
  return seconds.empty() ? kUnknown : mean_and_error(seconds).mean;
}

GroupSummary summary_of(const RunGroup& group) {
  const auto& config = group.config();
  GroupSummary summary;
  summary.name = group.name;
  for (const auto* run : group.runs) summary.seeds.push_back(run->history.config.seed);
  summary.model = config.model;
  summary.data = data_of(config);
  summary.optimizer = config.optimizer;
  summary.learning_rate = learning_rate(config);
  summary.epochs = epochs_of(group);
  summary.state = state_of(group);
  summary.train_loss =
      over_seeds_of(group, [](const RunHistory& run) { return run.epochs.back().train_loss; });
  summary.test_loss =
      over_seeds_of(group, [](const RunHistory& run) { return run.epochs.back().test.loss; });
  summary.final_top1 =
      over_seeds_of(group, [](const RunHistory& run) { return run.epochs.back().test.top1; });
  summary.best_top1 =
      over_seeds_of(group, [](const RunHistory& run) { return run.best_epoch()->test.top1; });
  const auto* best = group.runs.front()->history.best_epoch();
  if (group.runs.size() == 1 && best != nullptr) summary.best_epoch = best->epoch + 1;
  summary.seconds = mean_seconds(group);
  summary.images_per_second = median_speed(group);
  summary.parameters = group.runs.front()->history.parameters;
  return summary;
}

/// `sign` is 1 where more is better, -1 where less is.
void mark_best(std::vector<GroupSummary*>& rivals, Compared GroupSummary::*number, double sign) {
  double best = -std::numeric_limits<double>::infinity();
  double worst = std::numeric_limits<double>::infinity();
  for (const auto* rival : rivals) {
    const auto value = sign * (rival->*number).value.mean;
    if (!std::isfinite(value)) continue;
    best = std::max(best, value);
    worst = std::min(worst, value);
  }
  for (auto* rival : rivals) {
    auto& compared = rival->*number;
    compared.is_best = worst < best && sign * compared.value.mean == best;
  }
}

}  // namespace

std::string data_of(const RunConfig& config) {
  if (config.dataset != "image-folder" || config.data_dir.empty()) return config.dataset;
  return config.dataset + " " + full_path(config.data_dir).filename().string();
}

std::vector<GroupSummary> summaries_of(const std::vector<RunGroup>& groups) {
  std::vector<GroupSummary> summaries;
  summaries.reserve(groups.size());
  for (const auto& group : groups) summaries.push_back(summary_of(group));
  std::map<std::string, std::vector<GroupSummary*>> by_data;
  for (std::size_t index = 0; index < groups.size(); ++index) {
    const auto& config = groups[index].config();
    const bool own_images = config.dataset == "image-folder";
    by_data[config.dataset + (own_images ? " " + config.data_dir : "")].push_back(
        &summaries[index]);
  }
  for (auto& [data, rivals] : by_data) {
    mark_best(rivals, &GroupSummary::final_top1, 1.0);
    mark_best(rivals, &GroupSummary::best_top1, 1.0);
    mark_best(rivals, &GroupSummary::test_loss, -1.0);
  }
  return summaries;
}

}  // namespace adaact
