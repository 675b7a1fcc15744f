#include "experiments/shelf/kept_results.h"

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>

#include "experiments/shelf/measurement_files.h"
#include "experiments/shelf/run_key.h"
#include "experiments/shelf/same_sample.h"
#include "io/atomic_file.h"
#include "io/file_descriptor.h"
#include "io/json_text.h"
#include "train/run/metrics_record.h"
#include "train/run/run_file_names.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

bool is_kept(const ordered_json& record) {
  const auto kind = kind_of(record);
  return kind == kEpochRecord || kind == kDivergedRecord;
}

/// The records of a metrics file without those of steps.
std::string kept_records(const fs::path& metrics) {
  std::istringstream file(read_file(metrics));
  std::string records;
  for (std::string line; std::getline(file, line);) {
    const auto record = try_parse_json<ordered_json>(line).value;
    if (!record.is_discarded() && is_kept(record)) records += line + "\n";
  }
  return records;
}

/// Files of a run in the order in which they are written: the last one makes a folder a run.
using Files = std::vector<std::pair<std::string, std::string>>;  // name and bytes

Files small_files_of(const RunHistory& run) {
  Files files{{kMetricsFile, kept_records(run.folder / kMetricsFile)}};
  const auto environment = run.folder / kEnvironmentFile;
  if (fs::exists(environment)) files.emplace_back(kEnvironmentFile, read_file(environment));
  auto config = run.config;
  config.data_dir.clear();
  files.emplace_back(kConfigFile, config.to_json());
  return files;
}

/// Whether a folder holds this run already. One that cannot be read is something else, and stays as it is.
bool holds(const fs::path& folder, const RunHistory& run) {
  try {
    return are_same_sample(RunHistory::read(folder, RunHistory::Detail::WithoutSteps), run);
  } catch (const std::exception&) {
    return false;
  }
}

bool are_equal(const Measured& one, const Measured& other) {
  return one.values == other.values &&
         std::equal(one.tensors.begin(), one.tensors.end(), other.tensors.begin(),
                    other.tensors.end(), [](const auto& left, const auto& right) {
                      return left.first == right.first && left.second.equal(right.second);
                    });
}

bool lies_below(const fs::path& folder, const fs::path& results) {
  const auto relative =
      fs::weakly_canonical(folder).lexically_relative(fs::weakly_canonical(results));
  return !relative.empty() && *relative.begin() != "..";
}

/// In the first of "folder", "folder-2" and so on that holds this run or none.
void keep_run(const RunHistory& run, const fs::path& folder) {
  auto place = folder;
  for (int copy = 2; fs::exists(place / kConfigFile); ++copy) {
    if (holds(place, run)) return;
    place = folder.string() + "-" + std::to_string(copy);
  }
  fs::create_directories(place);
  for (const auto& [name, bytes] : small_files_of(run)) {
    write_file_atomically(place / name, bytes);
  }
}

bool keep_measurement(const PlannedMeasurement& planned, const Measured& measured,
                      const fs::path& folder) {
  if (holds_measurement(folder)) {
    const auto kept = read_measurement(folder);
    // A measurement that an earlier version kept and nobody can draw any more gives way.
    if (problem_with(kept, planned).empty()) return are_equal(kept, measured);
  }
  write_measurement(folder, planned, measured);
  return true;
}

}  // namespace

std::vector<std::string> keep(const Found& found, const fs::path& results) {
  std::vector<std::string> messages;
  for (const auto& run : found.runs) {
    if (!run.history || lies_below(run.history->folder, results)) continue;
    keep_run(*run.history, results / kept_path(run.planned));
  }
  for (const auto& measurement : found.measurements) {
    if (!measurement.measured) continue;
    const auto folder = results / "measurements" / folder_name(measurement.planned);
    if (!keep_measurement(measurement.planned, *measurement.measured, folder)) {
      messages.push_back(folder.string() + " holds another result, which is left as it is");
    }
  }
  return messages;
}

}  // namespace adaact
