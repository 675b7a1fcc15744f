#include "train/run/best_epoch.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include <c10/util/Exception.h>

#include "io/error_text.h"
#include "io/file_descriptor.h"
#include "io/json_text.h"
#include "train/run/metrics_record.h"

namespace adaact {
namespace {

bool begins_epoch_record(std::string_view line) {
  static const auto beginning = "{\"kind\":\"" + std::string(kEpochRecord) + "\"";
  return line.rfind(beginning, 0) == 0;
}

}  // namespace

BestEpoch::BestEpoch(const std::filesystem::path& metrics_file, std::int64_t bytes) {
  if (bytes == 0) return;
  const auto text = read_file(metrics_file);
  auto rest = std::string_view(text).substr(0, static_cast<std::size_t>(bytes));
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const auto line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!begins_epoch_record(line)) continue;
    try {
      add(epoch_from(parse_json<nlohmann::ordered_json>(line, "it")));
    } catch (const std::exception& error) {
      TORCH_CHECK(false, "adaact: ", metrics_file.string(), ", line ", number,
                  " is no record of an epoch: ", error_text_within_line(error));
    }
  }
}

bool BestEpoch::add(const EpochMetrics& epoch) {
  ++seen_;
  if (!(epoch.test.top1 > top1_)) return false;
  best_ = seen_;
  top1_ = epoch.test.top1;
  return true;
}

std::string BestEpoch::text() const {
  char text[64];
  std::snprintf(text, sizeof(text), "%.2f %% of epoch %lld", 100.0 * top1_,
                static_cast<long long>(best_));
  return text;
}

}  // namespace adaact
