#include <adaact/train/run_config.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <regex>
#include <thread>

#include <adaact/data/datasets.h>
#include <adaact/models/registry.h>
#include <adaact/optim/registry.h>
#include <adaact/train/model_card.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>
#include <nlohmann/json.hpp>

#include "io/error_text.h"
#include "io/file_descriptor.h"
#include "io/json_text.h"
#include "io/near_miss.h"
#include "io/utf8.h"
#include "train/run/check_config.h"
#include "train/run/chosen_defaults.h"
#include "train/run/run_file_names.h"

namespace adaact {
namespace {

using nlohmann::json;

template <typename Config, typename Visitor>
void visit_fields(Config& config, Visitor&& visit) {
  visit("model", config.model);
  visit("batchnorm", config.batchnorm);
  visit("drop_path", config.drop_path);
  visit("weights", config.weights);
  visit("dataset", config.dataset);
  visit("data_dir", config.data_dir);
  visit("image_size", config.image_size);
  visit("resize_size", config.resize_size);
  visit("limit_train", config.limit_train);
  visit("limit_test", config.limit_test);
  visit("augment", config.augment);
  visit("flip", config.flip);
  visit("crop", config.crop);
  visit("crop_scale", config.crop_scale);
  visit("crop_ratio", config.crop_ratio);
  visit("rand_augment", config.rand_augment);
  visit("erase", config.erase);
  visit("mixup", config.mixup);
  visit("cutmix", config.cutmix);
  visit("skip_bad_images", config.skip_bad_images);
  visit("validation", config.validation);
  visit("optimizer", config.optimizer);
  visit("decay_vectors", config.decay_vectors);
  visit("schedule", config.schedule);
  visit("milestones", config.milestones);
  visit("final_lr_factor", config.final_lr_factor);
  visit("min_lr", config.min_lr);
  visit("warmup_epochs", config.warmup_epochs);
  visit("warmup_lr", config.warmup_lr);
  visit("epochs", config.epochs);
  visit("batch_size", config.batch_size);
  visit("accumulation", config.accumulation);
  visit("sync_batchnorm", config.sync_batchnorm);
  visit("clip_norm", config.clip_norm);
  visit("loss", config.loss);
  visit("label_smoothing", config.label_smoothing);
  visit("ema", config.ema);
  visit("patience", config.patience);
  visit("precision", config.precision);
  visit("memory_format", config.memory_format);
  visit("deterministic", config.deterministic);
  visit("device", config.device);
  visit("threads", config.threads);
  visit("seed", config.seed);
}

constexpr char kOptimizerOptions[] = "optimizer_options";

template <typename Value>
void read_field(const char* /*name*/, const json& entry, Value& value) {
  entry.get_to(value);
}
void read_field(const char* /*name*/, const json& entry, double& value) {
  const bool unlimited = entry.is_null() && std::isinf(value);
  if (!unlimited) entry.get_to(value);
}
void read_field(const char* name, const json& entry, std::int64_t& value) {
  value = whole_number(entry, name);
}
void read_field(const char* name, const json& entry, std::vector<std::int64_t>& values) {
  values.clear();
  for (const auto& each : entry.get<std::vector<json>>())
    values.push_back(whole_number(each, name));
}
void read_field(const char* name, const json& entry, std::uint64_t& value) {
  TORCH_CHECK(entry.is_number_unsigned(), name, " is ", entry.dump(), ", expected a whole number");
  entry.get_to(value);
}

/// JSON has no infinity: null stands for it.
template <typename Value>
json to_value(const Value& value) {
  return value;
}
json to_value(double value) { return std::isinf(value) ? json() : json(value); }

json parse_options(const std::string& text) {
  auto options = parse_json<json>(text, "optimizer_options");
  TORCH_CHECK(options.is_object(), "optimizer_options is '", text, "', expected a JSON object");
  return options;
}

json to_object(const RunConfig& config) {
  auto object = json::object();
  visit_fields(config,
               [&](const char* name, const auto& value) { object[name] = to_value(value); });
  object[kOptimizerOptions] = parse_options(config.optimizer_options);
  return object;
}

std::int64_t cores() { return std::max(1U, std::thread::hardware_concurrency()); }

/// What fields that are absent, or left open, in a file of an earlier version meant there.
void take_as_before(const json& object, RunConfig& config) {
  if (!object.contains("flip")) config.flip = "on";
  if (!object.contains("crop")) config.crop = config.augment ? "padded" : "none";
  const bool own_size = config.dataset == "image-folder" && config.image_size == 0;
  if (own_size && !object.contains("validation")) config.image_size = 224;
}

void check_device_name(const std::string& device) {
  static const std::regex known("cpu|cuda(:[0-9]{1,3})?");
  TORCH_CHECK_VALUE(std::regex_match(device, known), "device is '", device,
                    "', expected cpu, cuda or cuda:N");
}

/// The optimizer's options with their defaults. To a run they are a value like its others.
std::string checked_options(const std::string& optimizer, const std::string& options) {
  try {
    check_options(optimizer, options);
    return complete_options(optimizer, options);
  } catch (const c10::Error& error) {
    TORCH_CHECK_VALUE(false, error.what_without_backtrace());
  }
}

std::string absolute_path(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

std::string available_device(const std::string& device) {
  check_device_name(device);
  return torch::cuda::device_count() == 0 ? "cpu" : device;
}

void check_device(const std::string& device) {
  check_device_name(device);
  if (device == "cpu") return;
  const auto there = static_cast<std::int64_t>(torch::cuda::device_count());
  TORCH_CHECK_VALUE(there > 0, "device is '", device, "', but LibTorch finds no GPU here; use cpu");
  const auto index = torch::Device(device).index();
  TORCH_CHECK_VALUE(index < there, "device is '", device, "', expected at most cuda:", there - 1);
}

std::int64_t most_threads() { return 4 * cores(); }

void RunConfig::resolve() {
  choose_defaults(*this);
  check_config(*this);
  if (threads == 0) threads = cores();
  weights = absolute_path(weights);
  data_dir = absolute_path(data_dir.empty() ? usual_data_dir(dataset).string() : data_dir);
  optimizer_options = checked_options(optimizer, optimizer_options);
  check_rates(*this);
}

std::string RunConfig::to_json() const { return to_object(*this).dump(2) + "\n"; }

RunConfig RunConfig::from_json(const std::string& text, const std::string& source) {
  const auto parsed = try_parse_json<json>(text);
  const auto& object = parsed.value;
  TORCH_CHECK(object.is_object(), "adaact: ", source,
              " is no configuration: ", parsed.problem.empty() ? "no JSON object" : parsed.problem);
  RunConfig config;
  json known;
  try {
    visit_fields(config, [&](const char* name, auto& value) {
      // Without a field that there was not yet when the file was written.
      if (object.contains(name)) read_field(name, object.at(name), value);
    });
    take_as_before(object, config);
    config.optimizer_options = object.at(kOptimizerOptions).dump();
    known = to_object(config);
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "adaact: ", source,
                " is no configuration of a run: ", error_text_within_line(error));
  }
  for (const auto& [name, value] : object.items()) {
    TORCH_CHECK(known.contains(name) || name == kSettingsField, "adaact: ", source,
                ": unknown field '", name, "'; was it written by a newer version?");
  }
  return config;
}

RunConfig RunConfig::read(const std::filesystem::path& config_file) {
  return from_json(read_file(config_file), config_file.string());
}

std::string ConfigDifference::text() const {
  return (of_optimizer ? "optimizer option " : "") + field + " is " + here + ", there it is " +
         there;
}

std::vector<ConfigDifference> differences(const RunConfig& config, const RunConfig& there) {
  std::vector<ConfigDifference> found;
  const auto compare = [&](const json& ours, const json& theirs, bool of_optimizer) {
    auto names = ours;
    names.update(theirs);
    for (const auto& [name, unused] : names.items()) {
      const auto shown = [name = name](const json& object) {
        return object.contains(name) ? object.at(name).dump() : std::string("absent");
      };
      if (shown(ours) == shown(theirs)) continue;
      found.push_back({name, of_optimizer, shown(ours), shown(theirs)});
    }
  };
  auto ours = to_object(config);
  auto theirs = to_object(there);
  compare(ours[kOptimizerOptions], theirs[kOptimizerOptions], /*of_optimizer=*/true);
  for (auto* object : {&ours, &theirs}) {
    object->erase(kOptimizerOptions);
    object->erase("data_dir");  // data may move; what matters is what they are
  }
  compare(ours, theirs, /*of_optimizer=*/false);
  return found;
}

std::vector<ConfigDifference> obstacles_to_going_on(const RunConfig& config,
                                                    const RunConfig& there) {
  auto adapted = there;
  if (config.epochs > there.epochs) adapted.epochs = config.epochs;
  adapted.patience = config.patience;
  adapted.threads = config.threads;
  adapted.device = config.device;
  if (config.device == "cpu" && there.device != "cpu") {
    if (there.precision == "tf32" && config.precision == "fp32") adapted.precision = "fp32";
    adapted.deterministic = config.deterministic;  // as the CPU always is
  }
  return differences(config, adapted);
}

}  // namespace adaact
