#include "experiments/shelf/run_key.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "io/checksum.h"
#include "train/run/canonical_config.h"
#include "train/run/chosen_defaults.h"

namespace adaact {
namespace {

using nlohmann::json;

/// Where and how a run was carried out.
constexpr const char* kMachineFields[] = {"data_dir",      "deterministic", "device",
                                          "memory_format", "precision",     "threads"};

/// Fields that there were not always are part of a key only where they change what was always done: the keys
/// of results from before stay.
void leave_out_what_was_always_so(const RunConfig& config, json& fields) {
  if (config.crop == (config.augment ? "padded" : "none")) fields.erase("crop");
  if (config.crop != "resized") fields.erase("crop_scale");
  fields.erase("crop_ratio");  // resize_size says it
  if (config.rand_augment.empty()) fields.erase("rand_augment");
  if (config.erase == 0.0) fields.erase("erase");
  if (config.mixup == 0.0) fields.erase("mixup");
  if (config.cutmix == 0.0) fields.erase("cutmix");
  if (config.loss == "cross-entropy") fields.erase("loss");
  if (config.ema == 0.0) fields.erase("ema");
  if (config.min_lr == 0.0) fields.erase("min_lr");
  if (std::isinf(config.warmup_lr)) fields.erase("warmup_lr");
  if (config.validation == 0.0) fields.erase("validation");
  if (config.patience == 0) fields.erase("patience");
  if (config.flip == "on") fields.erase("flip");
  if (!config.sync_batchnorm) fields.erase("sync_batchnorm");
  auto& options = fields.at("optimizer_options");
  if (config.optimizer == "foof" && options.at("scale") == "paper") options.erase("scale");
}

/// The fields that make the key of a run. Defaults are chosen first, as in the config.json of a run that was carried
/// out, so that a plan has the key of its run.
json key_fields(RunConfig config) {
  choose_defaults(config);
  auto fields = canonical_fields(config);
  for (const auto* field : kMachineFields) fields.erase(field);
  leave_out_what_was_always_so(config, fields);
  return fields;
}

std::string short_hash(const std::string& key) {
  Crc64 checksum;
  checksum.update(key);
  return checksum.hex().substr(0, 8);
}

std::string seed_and_hash(const PlannedRun& run) {
  return "seed" + std::to_string(run.config.seed) + "-" + short_hash(key_of(run.config)) +
         (run.activation_variances ? "-variances" : "");
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

std::string key_of_any_seed(RunConfig config) {
  config.seed = 0;
  return key_of(config);
}

std::string key_of(const PlannedMeasurement& measurement) {
  json fields{{"series", measurement.series}, {"setting", json(measurement.setting)}};
  if (measurement.of_run) fields["of_run"] = key_fields(measurement.of_run->config);
  return fields.dump();
}

std::string folder_name(const PlannedRun& run) {
  const auto& config = run.config;
  return config.dataset + "-" + config.model + "-" + config.optimizer + "-" + seed_and_hash(run);
}

std::filesystem::path kept_path(const PlannedRun& run) {
  const auto& config = run.config;
  return std::filesystem::path(config.dataset) / config.model / config.optimizer /
         seed_and_hash(run);
}

std::string folder_name(const PlannedMeasurement& measurement) {
  const auto hash = short_hash(key_of(measurement));
  const auto series = in_plain_letters(measurement.series);
  return series.empty() ? hash : series + "-" + hash;
}

}  // namespace adaact
