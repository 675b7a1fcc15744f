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
  visit("skip_bad_images", config.skip_bad_images);
  visit("validation", config.validation);
  visit("optimizer", config.optimizer);
  visit("decay_vectors", config.decay_vectors);
  visit("schedule", config.schedule);
  visit("milestones", config.milestones);
  visit("final_lr_factor", config.final_lr_factor);
  visit("warmup_epochs", config.warmup_epochs);
  visit("epochs", config.epochs);
  visit("batch_size", config.batch_size);
  visit("accumulation", config.accumulation);
  visit("sync_batchnorm", config.sync_batchnorm);
  visit("clip_norm", config.clip_norm);
  visit("label_smoothing", config.label_smoothing);
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
  const bool own_size = config.dataset == "image-folder" && config.image_size == 0;
  if (own_size && !object.contains("validation")) config.image_size = 224;
}

constexpr std::int64_t kMany = std::numeric_limits<std::uint32_t>::max();

void between(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
  TORCH_CHECK_VALUE(value >= low && value <= high, name, " is ", value, ", expected ", low, " to ",
                    high);
}

void in_unit_interval(const char* name, double value) {
  TORCH_CHECK_VALUE(value >= 0.0 && value < 1.0, name, " is ", value, ", expected [0, 1)");
}

void one_of(const char* name, const std::string& value, const std::vector<std::string>& known) {
  std::string list;
  for (const auto& each : known) {
    if (each == value) return;
    list += (list.empty() ? "" : ", ") + each;
  }
  TORCH_CHECK_VALUE(false, name, " is '", value, "', expected one of: ", list,
                    did_you_mean(value, known));
}

/// An option that changes nothing is a mistake of whoever gave it.
void only_with(bool given, const char* name, bool useful, const std::string& what) {
  TORCH_CHECK_VALUE(!given || useful, name, " is of use only with ", what);
}

void check_path(const char* name, const std::string& path) {
  TORCH_CHECK_VALUE(is_utf8(path), name, " is '", path, "', expected UTF-8");
}

void check_model_and_data(const RunConfig& config) {
  one_of("model", config.model, model_names());
  in_unit_interval("drop_path", config.drop_path);
  check_path("weights", config.weights);
  one_of("dataset", config.dataset, dataset_names());
  check_path("data_dir", config.data_dir);
  only_with(!config.data_dir.empty(), "data_dir", config.dataset != "synthetic",
            "a data set that has files");
  between("image_size", config.image_size, 0, kLargestImageSize);
  between("resize_size", config.resize_size, 0, kLargestResizeSize);
  between("limit_train", config.limit_train, 0, kMany);
  between("limit_test", config.limit_test, 0, kMany);
  const bool folder = config.dataset == "image-folder";
  only_with(config.resize_size != 0, "resize_size", folder, "the data set image-folder");
  only_with(config.skip_bad_images, "skip_bad_images", folder, "the data set image-folder");
  in_unit_interval("validation", config.validation);
  only_with(config.validation != 0.0, "validation", folder, "the data set image-folder");
  one_of("flip", config.flip, {"on", "off"});
  between("batch_size", config.batch_size, 1, kMany);
  one_of("precision", config.precision, {"fp32", "tf32", "bf16"});
  one_of("memory_format", config.memory_format, {"contiguous", "channels-last"});
  check_device(config.device);
  const bool gpu = config.device != "cpu";
  TORCH_CHECK_VALUE(config.precision != "tf32" || gpu,
                    "precision is 'tf32', which is of use only with a GPU");
  only_with(config.deterministic, "deterministic", gpu, "a GPU");
  TORCH_CHECK_VALUE(config.threads >= 0 && config.threads <= most_threads(), "threads is ",
                    config.threads, ", expected 0 to ", most_threads(), ", four for each of the ",
                    cores(), " cores of this machine");
}

void check_training(const RunConfig& config) {
  one_of("optimizer", config.optimizer, optimizer_names());
  between("epochs", config.epochs, 1, 1'000'000);
  between("accumulation", config.accumulation, 1, 1'000'000);
  TORCH_CHECK_VALUE(config.clip_norm > 0.0, "clip_norm is ", config.clip_norm,
                    ", expected a number > 0");
  in_unit_interval("label_smoothing", config.label_smoothing);

  one_of("schedule", config.schedule,
         {"constant", "step", "multistep", "cosine", "cosine-per-step"});
  const bool cosine = config.schedule.rfind("cosine", 0) == 0;
  TORCH_CHECK_VALUE(config.schedule != "step" || config.milestones.size() == 1, "milestones are ",
                    c10::IntArrayRef(config.milestones),
                    ", expected the one period that schedule 'step' needs");
  TORCH_CHECK_VALUE(config.schedule != "multistep" || !config.milestones.empty(),
                    "milestones are empty, expected those that schedule 'multistep' needs");
  only_with(!config.milestones.empty(), "milestones",
            config.schedule == "step" || config.schedule == "multistep",
            "the schedules step and multistep");
  for (const auto milestone : config.milestones) {
    TORCH_CHECK_VALUE(milestone >= 1 && milestone <= config.epochs, "milestones is ", milestone,
                      ", expected at least 1 and no more than epochs, which is ", config.epochs);
  }
  const auto& milestones = config.milestones;
  const auto not_ascending =
      std::adjacent_find(milestones.begin(), milestones.end(), std::greater_equal<>());
  TORCH_CHECK_VALUE(not_ascending == milestones.end(), "milestones are ",
                    c10::IntArrayRef(config.milestones), ", expected ascending ones");
  TORCH_CHECK_VALUE(config.final_lr_factor >= 0.0 && config.final_lr_factor <= 1.0,
                    "final_lr_factor is ", config.final_lr_factor, ", expected [0, 1]");
  only_with(config.final_lr_factor != 0.0, "final_lr_factor", cosine, "the cosine schedules");
  TORCH_CHECK_VALUE(config.warmup_epochs >= 0, "warmup_epochs is ", config.warmup_epochs,
                    ", expected 0 or more");
  TORCH_CHECK_VALUE(config.warmup_epochs < config.epochs, "warmup_epochs is ", config.warmup_epochs,
                    ", expected less than epochs, which is ", config.epochs);
  between("patience", config.patience, 0, 1'000'000);
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
  check_model_and_data(*this);
  check_training(*this);
  if (threads == 0) threads = cores();
  weights = absolute_path(weights);
  data_dir = absolute_path(data_dir.empty() ? usual_data_dir(dataset).string() : data_dir);
  optimizer_options = checked_options(optimizer, optimizer_options);
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
