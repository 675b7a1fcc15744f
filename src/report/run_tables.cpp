#include "report/run_tables.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/joined.h"
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

Cell compared_cell(const Compared& compared, std::string (*format)(const MeanAndError&)) {
  return number_cell(format(compared.value), compared.is_best);
}

Markup below(const std::string& note) { return element("span", {{"class", "state"}}, text(note)); }

Markup name_of(const std::string& name, std::size_t style) {
  return element("span", {{"class", "name"}}, swatch(style) + element("span", text(name)));
}

Cell group_cell(const GroupSummary& summary, std::size_t style) {
  auto content = name_of(summary.name, style);
  if (summary.seeds.size() > 1) {
    content += below("mean of " + std::to_string(summary.seeds.size()) + " seeds");
  }
  if (!summary.state.empty()) content += below(summary.state);
  return {content, ""};
}

Cell best_cell(const GroupSummary& summary) {
  auto cell = compared_cell(summary.best_top1, percent);
  if (summary.best_epoch) cell.content += below("epoch " + std::to_string(*summary.best_epoch));
  return cell;
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
  std::vector<std::string> values;  // of each group
  bool differs = false;             // between runs
};

/// What a setting is in a group: several values where its runs differ, as in their seeds.
std::string values_in(const std::vector<json>& runs, const std::string& name) {
  std::vector<std::string> values;
  for (const auto& fields : runs) {
    auto value = fields.contains(name) ? to_text(fields.at(name)) : kNothing;
    if (std::find(values.begin(), values.end(), value) == values.end()) {
      values.push_back(std::move(value));
    }
  }
  return joined(values);
}

/// The settings of runs in the order of their names, so that the options of the optimizer follow
/// the optimizer.
std::vector<Setting> settings_of(const std::vector<RunGroup>& groups) {
  std::vector<std::vector<json>> configurations;  // of the runs of each group
  std::set<std::string> names;
  for (const auto& group : groups) {
    auto& of_group = configurations.emplace_back();
    for (const auto* run : group.runs) {
      of_group.push_back(flat_settings(run->history.config));
      for (const auto& [name, value] : of_group.back().items()) names.insert(name);
    }
  }
  std::vector<Setting> settings;
  for (const auto& name : names) {
    Setting setting{name, {}, false};
    const auto& first = configurations.front().front();
    for (const auto& of_group : configurations) {
      setting.values.push_back(values_in(of_group, name));
      for (const auto& fields : of_group) {
        const bool present = fields.contains(name);
        setting.differs = setting.differs || present != first.contains(name) ||
                          (present && fields.at(name) != first.at(name));
      }
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

}  // namespace

Table summary_table(const std::vector<GroupSummary>& summaries) {
  Table table{"Summary of the runs", {{text("Run"), ""}}, {}};
  table.shows_name = false;
  for (const char* heading :
       {"Final test top‑1", "Best test top‑1", "Final test loss", "Final train loss"}) {
    table.heading.push_back({text(heading), "number"});
  }
  for (const char* heading : {"Optimizer", "Model", "Data"}) {
    table.heading.push_back({text(heading), ""});
  }
  for (const char* heading :
       {"Learning rate", "Epochs", "Training time", "Images/s", "Parameters"}) {
    table.heading.push_back({text(heading), "number"});
  }
  for (std::size_t index = 0; index < summaries.size(); ++index) {
    const auto& summary = summaries[index];
    const bool has_speed = std::isfinite(summary.images_per_second);
    table.rows.push_back(
        {group_cell(summary, index),
         compared_cell(summary.final_top1, percent),
         best_cell(summary),
         compared_cell(summary.test_loss, decimal),
         compared_cell(summary.train_loss, decimal),
         {text(summary.optimizer), ""},
         {text(summary.model), ""},
         {text(summary.data), ""},
         number_cell(summary.learning_rate),
         number_cell(summary.epochs),
         number_cell(duration(summary.seconds)),
         number_cell(has_speed ? grouped(std::llround(summary.images_per_second)) : kNothing),
         number_cell(summary.parameters ? grouped(*summary.parameters) : kNothing)});
  }
  return table;
}

Table differing_settings(const std::vector<RunGroup>& groups) {
  Table table{"Settings in which the runs differ", {{text("Setting"), ""}}, {}};
  table.shows_name = false;
  for (std::size_t index = 0; index < groups.size(); ++index) {
    table.heading.push_back({name_of(groups[index].name, index), "wide"});
  }
  for (const auto& setting : settings_of(groups)) {
    if (!setting.differs) continue;
    std::vector<Cell> row{{element("code", text(setting.name)), ""}};
    for (const auto& value : setting.values) row.push_back({text(value), "wide"});
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table common_settings(const std::vector<RunGroup>& groups) {
  const bool alone = groups.size() == 1 && groups.front().runs.size() == 1;
  Table table{"Settings of all runs",
              {{text("Setting"), ""}, {text(alone ? "Value" : "Value in all runs"), "wide"}},
              {}};
  table.shows_name = false;
  for (const auto& setting : settings_of(groups)) {
    if (setting.differs) continue;
    table.rows.push_back(
        {{element("code", text(setting.name)), ""}, {text(setting.values.front()), "wide"}});
  }
  return table;
}

}  // namespace adaact
