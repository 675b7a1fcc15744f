#include "report/run_groups.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "train/run/canonical_config.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

/// Where a run was carried out, and the seed. Not the precision nor the layout, which people compare.
constexpr const char* kFieldsOfOneRun[] = {"seed", "data_dir", "deterministic", "device",
                                           "threads"};

std::string configuration_of(const RunConfig& config) {
  nlohmann::json fields;
  try {
    fields = canonical_fields(config);
  } catch (const std::exception&) {  // options that this version does not know
    fields = nlohmann::json::parse(config.to_json());
  }
  // Own images are other data in another folder; of the others the name says which they are.
  if (config.dataset == "image-folder") fields["dataset"] = "image-folder " + config.data_dir;
  for (const auto* field : kFieldsOfOneRun) fields.erase(field);
  return fields.dump();
}

bool has_seed(const RunGroup& group, std::uint64_t seed) {
  return std::any_of(group.runs.begin(), group.runs.end(),
                     [&](const NamedRun* run) { return run->history.config.seed == seed; });
}

std::string common_beginning(const std::string& one, const std::string& other) {
  const auto end = std::mismatch(one.begin(), one.end(), other.begin(), other.end()).first;
  return {one.begin(), end};
}

/// "adaact-seed-" as "adaact", "seed-" as nothing.
std::string without_seed(std::string name) {
  const auto cut_end = [&](const std::string& letters) {
    name.erase(name.find_last_not_of(letters) + 1);
  };
  cut_end("0123456789");  // of seeds 10 and 11
  cut_end("-_. ");
  const std::string word = "seed";
  if (name.size() >= word.size() &&
      name.compare(name.size() - word.size(), word.size(), word) == 0) {
    name.erase(name.size() - word.size());
    cut_end("-_. ");
  }
  return name;
}

/// What the folders of several seeds have in common: "runs/adaact" of runs/adaact-0 and runs/adaact-1, or
/// of runs/adaact/seed-0 and so on. Empty where they have no folder in common.
fs::path common_folder(const RunGroup& group) {
  const auto first = full_path(group.runs.front()->history.folder);
  auto name = first.filename().string();
  for (const auto* run : group.runs) {
    const auto path = full_path(run->history.folder);
    if (path.parent_path() != first.parent_path()) return {};
    name = common_beginning(name, path.filename().string());
  }
  name = without_seed(name);
  return name.empty() ? first.parent_path() : first.parent_path() / name;
}

void name_groups(const std::vector<NamedRun>& runs, std::vector<RunGroup>& groups) {
  std::set<fs::path> taken;
  for (const auto& run : runs) taken.insert(full_path(run.history.folder));
  std::vector<fs::path> paths;
  for (const auto& group : groups) {
    auto path = group.runs.size() == 1 ? fs::path() : common_folder(group);
    if (path.empty() || !taken.insert(path).second) {
      path = full_path(group.runs.front()->history.folder);
    }
    paths.push_back(path);
  }
  const auto names = distinct_names(paths);
  for (std::size_t index = 0; index < groups.size(); ++index) groups[index].name = names[index];
}

}  // namespace

std::vector<RunGroup> groups_of(const std::vector<NamedRun>& runs) {
  std::vector<RunGroup> groups;
  std::vector<std::string> configurations;  // of the groups
  for (const auto& run : runs) {
    const auto configuration = configuration_of(run.history.config);
    std::size_t index = 0;
    while (index < groups.size() && (configurations[index] != configuration ||
                                     has_seed(groups[index], run.history.config.seed))) {
      ++index;
    }
    if (index == groups.size()) {
      groups.push_back({run.name, {}});
      configurations.push_back(configuration);
    }
    groups[index].runs.push_back(&run);
  }
  for (auto& group : groups) {
    std::stable_sort(group.runs.begin(), group.runs.end(),
                     [](const NamedRun* one, const NamedRun* other) {
                       return one->history.config.seed < other->history.config.seed;
                     });
  }
  name_groups(runs, groups);
  return groups;
}

std::vector<RunGroup> each_alone(const std::vector<NamedRun>& runs) {
  std::vector<RunGroup> groups;
  groups.reserve(runs.size());
  for (const auto& run : runs) groups.push_back({run.name, {&run}});
  return groups;
}

}  // namespace adaact
