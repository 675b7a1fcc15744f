#include "experiments/page/departures.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "experiments/shelf/run_key.h"

namespace adaact {
namespace {

using nlohmann::json;

/// What each run and each measurement of a plan computes, but for its seed.
std::vector<json> settings_of(const ExperimentPlan& plan) {
  std::vector<json> settings;
  const auto add = [&](json setting) {
    setting.erase("seed");
    if (std::find(settings.begin(), settings.end(), setting) == settings.end()) {
      settings.push_back(std::move(setting));
    }
  };
  for (const auto& run : plan.runs) add(json::parse(key_of(run.config)));
  for (const auto& measurement : plan.measurements) add(json(measurement.setting));
  return settings;
}

std::string shown(const json& setting, const std::string& field) {
  if (!setting.contains(field)) return "none";
  const auto& value = setting.at(field);
  const bool is_limit = field.rfind("limit_", 0) == 0;
  if (is_limit && value == 0) return "all";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<std::string> differing_fields(const json& setting, const json& papers) {
  auto fields = setting;
  fields.update(papers);
  std::vector<std::string> differing;
  for (const auto& [field, unused] : fields.items()) {
    const auto ours = shown(setting, field);
    const auto theirs = shown(papers, field);
    if (ours != theirs) differing.push_back(field + " " + ours + " instead of " + theirs);
  }
  return differing;
}

/// How a setting differs from the one of the paper's settings that it is most like.
std::vector<std::string> fewest_differences(const json& setting, const std::vector<json>& papers) {
  std::optional<std::vector<std::string>> fewest;
  for (const auto& each : papers) {
    auto differing = differing_fields(setting, each);
    if (!fewest || differing.size() < fewest->size()) fewest = std::move(differing);
  }
  return fewest.value_or(std::vector<std::string>{});
}

}  // namespace

std::vector<std::string> departures_from_paper(const Experiment& experiment,
                                               const ExperimentForm& form) {
  const auto papers = settings_of(experiment.plan({}));
  std::vector<std::string> departures;
  for (const auto& setting : settings_of(experiment.plan(form))) {
    for (auto& line : fewest_differences(setting, papers)) {
      const bool is_known =
          std::find(departures.begin(), departures.end(), line) != departures.end();
      if (!is_known) departures.push_back(std::move(line));
    }
  }
  return departures;
}

}  // namespace adaact
