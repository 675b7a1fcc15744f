#include <adaact/report/run_history.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "train/run/metrics_record.h"
#include "train/run/run_file_names.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

void add_record(const ordered_json& record, RunHistory& history) {
  const auto kind = kind_of(record);
  if (kind == kStepRecord) history.steps.push_back(step_from(record));
  if (kind == kEpochRecord) history.epochs.push_back(epoch_from(record));
  if (kind == kDivergedRecord) history.divergence = divergence_from(record);
  // A record of another kind is from a newer version and not needed here.
}

/// Whether a line is the record of a step. Told by its beginning, as metrics_record.h writes it,
/// without reading the rest.
bool is_step(const std::string& line) {
  static const auto beginning = "{\"kind\":\"" + std::string(kStepRecord) + "\"";
  return line.rfind(beginning, 0) == 0;
}

void read_metrics(const fs::path& path, RunHistory::Detail detail, RunHistory& history) {
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, "adaact: ", path.string(), " cannot be opened: ", std::strerror(errno));
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    const bool without_end = file.eof();
    if (detail == RunHistory::Detail::WithoutSteps && is_step(line)) continue;
    const auto record = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (record.is_discarded() && without_end) return;  // being written, or was when it was killed
    TORCH_CHECK(!record.is_discarded(), "adaact: ", path.string(), ", line ", number,
                " is damaged: no JSON");
    try {
      add_record(record, history);
    } catch (const ordered_json::exception& error) {
      TORCH_CHECK(false, "adaact: ", path.string(), ", line ", number,
                  " is no record of a run: ", error.what());
    }
  }
}

bool is_buffer(const std::string& name) {
  static const std::vector<std::string> ends{"running_mean", "running_var", "num_batches_tracked"};
  return std::any_of(ends.begin(), ends.end(), [&](const std::string& end) {
    return name.size() >= end.size() &&
           name.compare(name.size() - end.size(), end.size(), end) == 0;
  });
}

/// From the header alone: a file of weights may be large. A report does without the number where the
/// file cannot be understood.
std::optional<std::int64_t> count_parameters(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t length = 0;  // files are little endian, and so are the machines we run on
  file.read(reinterpret_cast<char*>(&length), sizeof(length));
  constexpr std::uint64_t kLongest = 100'000'000;
  if (!file || length > kLongest) return std::nullopt;
  std::string text(length, '\0');
  file.read(text.data(), static_cast<std::streamsize>(length));
  const auto header = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!file || !header.is_object()) return std::nullopt;
  std::int64_t count = 0;
  try {
    for (const auto& [name, tensor] : header.items()) {
      if (name == "__metadata__" || is_buffer(name)) continue;
      const auto shape = tensor.at("shape").get<std::vector<std::int64_t>>();
      count += std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    }
  } catch (const ordered_json::exception&) {
    return std::nullopt;
  }
  return count;
}

}  // namespace

RunHistory RunHistory::read(const fs::path& folder, Detail detail) {
  TORCH_CHECK(fs::exists(folder), "adaact: ", folder.string(),
              " is no run: there is no such folder");
  TORCH_CHECK(fs::is_directory(folder), "adaact: ", folder.string(),
              " is no run: it is a file; name the folder of the run");
  const auto config_file = folder / kConfigFile;
  TORCH_CHECK(fs::exists(config_file), "adaact: ", folder.string(),
              " is no run: there is no config.json in it");
  RunHistory history;
  history.folder = folder;
  history.config = RunConfig::read(config_file);
  const auto metrics_file = folder / kMetricsFile;
  if (fs::exists(metrics_file)) read_metrics(metrics_file, detail, history);
  const auto model_file = folder / kModelFile;
  const bool has_model = fs::exists(model_file);
  // A result that is kept for long has no model any more, but all its epochs.
  const bool has_all_epochs =
      static_cast<std::int64_t>(history.epochs.size()) == history.config.epochs;
  history.finished = has_model || has_all_epochs;
  if (has_model) history.parameters = count_parameters(model_file);
  return history;
}

double RunHistory::seconds() const {
  if (steps.empty() && !epochs.empty()) return epochs.back().seconds;  // only epochs were kept
  double sum = 0.0;
  for (const auto& step : steps) sum += step.seconds + step.wait_seconds;
  return sum;
}

std::optional<double> RunHistory::steps_per_epoch() const {
  if (epochs.empty()) return std::nullopt;
  const auto& last = epochs.back();
  return static_cast<double>(last.step) / static_cast<double>(last.epoch + 1);
}

const EpochMetrics* RunHistory::best_epoch() const {
  const EpochMetrics* best = nullptr;
  for (const auto& epoch : epochs) {
    if (best == nullptr || epoch.test.top1 > best->test.top1) best = &epoch;
  }
  return best;
}

std::optional<std::int64_t> RunHistory::diverged_in_epoch() const {
  for (const auto& epoch : epochs) {
    if (!std::isfinite(epoch.train_loss) || !std::isfinite(epoch.test.loss)) return epoch.epoch + 1;
  }
  return divergence ? std::optional(divergence->epoch + 1) : std::nullopt;
}

}  // namespace adaact
