#include <adaact/report/run_history.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "io/error_text.h"
#include "io/file_descriptor.h"
#include "io/json_text.h"
#include "io/tensor_header.h"
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
bool is_step(std::string_view line) {
  static const auto beginning = "{\"kind\":\"" + std::string(kStepRecord) + "\"";
  return line.rfind(beginning, 0) == 0;
}

void read_metrics(const fs::path& path, RunHistory::Detail detail, RunHistory& history) {
  const auto text = read_file(path);
  std::string_view rest(text);
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const auto end = rest.find('\n');
    const bool without_end = end == std::string_view::npos;
    const auto line = rest.substr(0, end);
    rest.remove_prefix(without_end ? rest.size() : end + 1);
    if (detail == RunHistory::Detail::WithoutSteps && is_step(line)) continue;
    const auto [record, problem] = try_parse_json<ordered_json>(line);
    if (record.is_discarded() && without_end) return;  // being written, or was when it was killed
    TORCH_CHECK(!record.is_discarded(), "adaact: ", path.string(), ", line ", number,
                " is damaged: no JSON: ", problem);
    try {
      add_record(record, history);
    } catch (const std::exception& error) {
      TORCH_CHECK(false, "adaact: ", path.string(), ", line ", number,
                  " is no record of a run: ", error_text_within_line(error));
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
  using nlohmann::json;
  try {
    const auto file = open_regular_file(path);
    std::uint64_t length = 0;  // files are little endian, and so are the machines we run on
    file.read(reinterpret_cast<char*>(&length), sizeof(length), path);
    if (length > fs::file_size(path)) return std::nullopt;
    std::string text(length, '\0');
    text.resize(file.read(text.data(), text.size(), path));
    std::int64_t count = 0;
    const auto header = parse_json<json>(text, path.string());
    if (!header.is_object()) return std::nullopt;
    for (const auto& [name, tensor] : header.items()) {
      if (name == kMetadata || is_buffer(name)) continue;
      std::int64_t numel = 1;
      for (const auto& size : tensor.at("shape")) {
        const auto extent = whole_number(size, name);
        if (extent < 0 || __builtin_mul_overflow(numel, extent, &numel)) return std::nullopt;
      }
      if (__builtin_add_overflow(count, numel, &count)) return std::nullopt;
    }
    return count;
  } catch (const std::exception&) {
    return std::nullopt;
  }
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
