#include "report/run_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/json_text.h"
#include "report/format.h"

namespace adaact {
namespace {

using nlohmann::json;

std::string to_text(const json& value) {
  if (value.is_null()) return "∞";  // JSON has none, null stands for it
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string())
    return value.get<std::string>().empty() ? kNothing : value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string list;
  for (const auto& each : value) list += (list.empty() ? "" : ", ") + to_text(each);
  return list.empty() ? kNothing : list;
}

std::string learning_rate(const RunConfig& config) {
  const auto options = try_parse_json<json>(config.optimizer_options).value;
  const bool known = options.is_object() && options.contains("lr");
  return known && options.at("lr").is_number() ? rounded(options.at("lr").get<double>()) : kNothing;
}

std::string epochs_of(const RunHistory& run) {
  const auto planned = std::to_string(run.config.epochs);
  const auto done = std::to_string(run.epochs.size());
  return done == planned ? planned : done + " of " + planned;
}

std::string state_of(const RunHistory& run) {
  const auto lost = run.diverged_in_epoch();
  if (lost) return "diverged in epoch " + std::to_string(*lost);
  if (run.finished) return "";
  return run.epochs.empty() ? "no epoch finished yet" : "not finished";
}

std::string speed_of(const RunHistory& run) {
  std::vector<double> speeds;
  for (const auto& epoch : run.epochs) {
    if (std::isfinite(epoch.images_per_second)) speeds.push_back(epoch.images_per_second);
  }
  if (speeds.empty()) return kNothing;
  const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
  std::nth_element(speeds.begin(), middle, speeds.end());
  return grouped(std::llround(*middle));
}

Cell number_cell(const std::string& value, bool best = false) {
  return {text(value), best ? "number best" : "number"};
}

/// What is compared between runs: the best is set in bold, unless all are the same.
class Comparison {
 public:
  void add(double value) {
    if (!std::isfinite(value)) return;
    worst_ = std::min(worst_, value);
    best_ = std::max(best_, value);
  }
  bool is_best(double value) const { return worst_ < best_ && value == best_; }

 private:
  double worst_ = std::numeric_limits<double>::infinity();
  double best_ = -std::numeric_limits<double>::infinity();
};

struct Comparisons {
  Comparison last_top1;
  Comparison best_top1;
  Comparison negative_loss;
};

Comparisons compare(const std::vector<NamedRun>& runs) {
  Comparisons comparisons;
  for (const auto& run : runs) {
    const auto& epochs = run.history.epochs;
    if (epochs.empty()) continue;
    comparisons.last_top1.add(epochs.back().test.top1);
    comparisons.best_top1.add(run.history.best_epoch()->test.top1);
    comparisons.negative_loss.add(-epochs.back().test.loss);
  }
  return comparisons;
}

Markup name_of(const NamedRun& run, std::size_t style) {
  return element("span", {{"class", "name"}}, swatch(style) + element("span", text(run.name)));
}

Cell run_cell(const NamedRun& run, std::size_t style) {
  auto content = name_of(run, style);
  const auto state = state_of(run.history);
  if (!state.empty()) content += element("span", {{"class", "state"}}, text(state));
  return {content, ""};
}

/// Final top-1, best top-1 with its epoch, final loss.
void add_results(const RunHistory& run, const Comparisons& comparisons, std::vector<Cell>& row) {
  if (run.epochs.empty()) {
    row.insert(row.end(), 3, number_cell(kNothing));
    return;
  }
  const auto& last = run.epochs.back().test;
  const auto& best = *run.best_epoch();
  row.push_back(number_cell(percent(last.top1), comparisons.last_top1.is_best(last.top1)));
  auto best_cell =
      number_cell(percent(best.test.top1), comparisons.best_top1.is_best(best.test.top1));
  best_cell.content +=
      element("span", {{"class", "state"}}, text("epoch " + std::to_string(best.epoch + 1)));
  row.push_back(best_cell);
  row.push_back(number_cell(decimal(last.loss), comparisons.negative_loss.is_best(-last.loss)));
}

/// All settings of a configuration, with the options of the optimizer as "optimizer.lr" and so on.
json flat_settings(const RunConfig& config) {
  auto fields = json::parse(config.to_json());
  const auto options = fields.at("optimizer_options");
  fields.erase("optimizer_options");
  for (const auto& [name, value] : options.items()) fields["optimizer." + name] = value;
  return fields;
}

struct Setting {
  std::string name;
  std::vector<std::string> values;  // of each run
  bool differs = false;
};

/// The settings of runs in the order of their names, so that the options of the optimizer follow
/// the optimizer.
std::vector<Setting> settings_of(const std::vector<NamedRun>& runs) {
  std::vector<json> configurations;
  std::set<std::string> names;
  for (const auto& run : runs) {
    configurations.push_back(flat_settings(run.history.config));
    for (const auto& [name, value] : configurations.back().items()) names.insert(name);
  }
  std::vector<Setting> settings;
  for (const auto& name : names) {
    Setting setting{name, {}, false};
    const auto& first = configurations.front();
    for (const auto& fields : configurations) {
      const bool present = fields.contains(name);
      setting.values.push_back(present ? to_text(fields.at(name)) : kNothing);
      setting.differs = setting.differs || present != first.contains(name) ||
                        (present && fields.at(name) != first.at(name));
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

}  // namespace

Table summary_table(const std::vector<NamedRun>& runs) {
  Table table{"Summary of the runs", {}, {}};
  table.shows_name = false;
  for (const char* heading : {"Run", "Model", "Data", "Optimizer"}) {
    table.heading.push_back({text(heading), ""});
  }
  for (const char* heading : {"Learning rate", "Epochs", "Final test top‑1", "Best test top‑1",
                              "Final test loss", "Training time", "Images/s", "Parameters"}) {
    table.heading.push_back({text(heading), "number"});
  }
  const auto comparisons = compare(runs);
  for (std::size_t index = 0; index < runs.size(); ++index) {
    const auto& run = runs[index].history;
    std::vector<Cell> row{run_cell(runs[index], index),           {text(run.config.model), ""},
                          {text(run.config.dataset), ""},         {text(run.config.optimizer), ""},
                          number_cell(learning_rate(run.config)), number_cell(epochs_of(run))};
    add_results(run, comparisons, row);
    row.push_back(number_cell(run.steps.empty() ? kNothing : duration(run.seconds())));
    row.push_back(number_cell(speed_of(run)));
    row.push_back(number_cell(run.parameters ? grouped(*run.parameters) : kNothing));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table differing_settings(const std::vector<NamedRun>& runs) {
  Table table{"Settings in which the runs differ", {{text("Setting"), ""}}, {}};
  table.shows_name = false;
  for (std::size_t index = 0; index < runs.size(); ++index) {
    table.heading.push_back({name_of(runs[index], index), "wide"});
  }
  for (const auto& setting : settings_of(runs)) {
    if (!setting.differs) continue;
    std::vector<Cell> row{{element("code", text(setting.name)), ""}};
    for (const auto& value : setting.values) row.push_back({text(value), "wide"});
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table common_settings(const std::vector<NamedRun>& runs) {
  const auto* heading = runs.size() == 1 ? "Value" : "Value in all runs";
  Table table{"Settings of all runs", {{text("Setting"), ""}, {text(heading), "wide"}}, {}};
  table.shows_name = false;
  for (const auto& setting : settings_of(runs)) {
    if (setting.differs) continue;
    table.rows.push_back(
        {{element("code", text(setting.name)), ""}, {text(setting.values.front()), "wide"}});
  }
  return table;
}

}  // namespace adaact
