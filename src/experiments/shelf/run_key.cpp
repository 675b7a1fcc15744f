#include "experiments/shelf/run_key.h"

#include <adaact/data/datasets.h>
#include <adaact/optim/registry.h>
#include <nlohmann/json.hpp>

#include "io/checksum.h"

namespace adaact {
namespace {

using nlohmann::json;

/// Where and how a run was carried out.
constexpr const char* kMachineFields[] = {"data_dir",      "deterministic", "device",
                                          "memory_format", "precision",     "threads"};

/// 1 and 1.0 are the same option.
void make_numbers_real(json& value) {
  if (value.is_number()) value = value.get<double>();
  if (!value.is_structured()) return;
  for (auto& each : value) make_numbers_real(each);
}

/// Fields that there were not always are part of a key only where they change what was always done: the keys
/// of results from before stay.
void leave_out_what_was_always_so(const RunConfig& config, json& fields) {
  if (config.validation == 0.0) fields.erase("validation");
  const bool flips = config.flip == "auto" ? may_be_mirrored(config.dataset) : config.flip == "on";
  fields["flip"] = "off";
  if (flips) fields.erase("flip");
}

/// Not RunConfig::resolve(): it refuses a GPU where there is none.
json key_fields(const RunConfig& config) {
  auto fields = json::parse(config.to_json());
  for (const auto* field : kMachineFields) fields.erase(field);
  leave_out_what_was_always_so(config, fields);
  auto options = json::parse(complete_options(config.optimizer, config.optimizer_options));
  make_numbers_real(options);
  fields["optimizer_options"] = options;
  return fields;
}

std::string short_hash(const std::string& key) {
  Crc64 checksum;
  checksum.update(key);
  return checksum.hex().substr(0, 8);
}

/// Letters and digits, with a hyphen for anything else between them.
std::string in_plain_letters(const std::string& text) {
  std::string plain;
  for (const char letter : text) {
    const bool is_upper = letter >= 'A' && letter <= 'Z';
    const bool is_plain =
        is_upper || (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
    if (is_plain) {
      plain += is_upper ? static_cast<char>(letter - 'A' + 'a') : letter;
    } else if (!plain.empty() && plain.back() != '-') {
      plain += '-';
    }
  }
  if (!plain.empty() && plain.back() == '-') plain.pop_back();
  return plain;
}

}  // namespace

std::string key_of(const RunConfig& config) { return key_fields(config).dump(); }

std::string key_of(const PlannedMeasurement& measurement) {
  json fields{{"series", measurement.series}, {"setting", json(measurement.setting)}};
  if (measurement.of_run) fields["of_run"] = key_fields(measurement.of_run->config);
  return fields.dump();
}

std::string folder_name(const PlannedRun& run) {
  const auto& config = run.config;
  return config.dataset + "-" + config.model + "-" + config.optimizer + "-seed" +
         std::to_string(config.seed) + "-" + short_hash(key_of(config)) +
         (run.activation_variances ? "-variances" : "");
}

std::string folder_name(const PlannedMeasurement& measurement) {
  const auto hash = short_hash(key_of(measurement));
  const auto series = in_plain_letters(measurement.series);
  return series.empty() ? hash : series + "-" + hash;
}

}  // namespace adaact
