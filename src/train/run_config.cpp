#include <adaact/train/run_config.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include <adaact/data/datasets.h>
#include <adaact/models/registry.h>
#include <adaact/optim/registry.h>
#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

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
  visit("skip_bad_images", config.skip_bad_images);
  visit("optimizer", config.optimizer);
  visit("decay_vectors", config.decay_vectors);
  visit("schedule", config.schedule);
  visit("milestones", config.milestones);
  visit("final_lr_factor", config.final_lr_factor);
  visit("warmup_epochs", config.warmup_epochs);
  visit("epochs", config.epochs);
  visit("batch_size", config.batch_size);
  visit("accumulation", config.accumulation);
  visit("clip_norm", config.clip_norm);
  visit("label_smoothing", config.label_smoothing);
  visit("precision", config.precision);
  visit("device", config.device);
  visit("threads", config.threads);
  visit("seed", config.seed);
}

constexpr char kOptimizerOptions[] = "optimizer_options";

/// JSON has no infinity: null stands for it.
template <typename Value>
json to_value(const Value& value) {
  return value;
}
json to_value(double value) { return std::isinf(value) ? json() : json(value); }

json parse_options(const std::string& text) {
  auto options = json::parse(text, nullptr, /*allow_exceptions=*/false);
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

void at_least(const char* name, std::int64_t value, std::int64_t low) {
  TORCH_CHECK(value >= low, name, " is ", value, ", expected ≥ ", low);
}

void one_of(const char* name, const std::string& value, const std::vector<std::string>& known) {
  std::string list;
  for (const auto& each : known) {
    if (each == value) return;
    list += (list.empty() ? "" : ", ") + each;
  }
  TORCH_CHECK(false, name, " is '", value, "', expected one of: ", list);
}

void validate(const RunConfig& config) {
  one_of("model", config.model, model_names());
  one_of("dataset", config.dataset, dataset_names());
  one_of("optimizer", config.optimizer, optimizer_names());
  at_least("epochs", config.epochs, 1);
  at_least("batch_size", config.batch_size, 1);
  at_least("accumulation", config.accumulation, 1);
  at_least("limit_train", config.limit_train, 0);
  at_least("limit_test", config.limit_test, 0);
  at_least("image_size", config.image_size, 0);
  at_least("resize_size", config.resize_size, 0);
  at_least("threads", config.threads, 0);
  at_least("warmup_epochs", config.warmup_epochs, 0);
  TORCH_CHECK(config.warmup_epochs < config.epochs, "warmup_epochs is ", config.warmup_epochs,
              ", expected fewer than epochs, ", config.epochs);
  for (const auto milestone : config.milestones) at_least("milestones", milestone, 1);
  TORCH_CHECK(config.final_lr_factor >= 0.0 && config.final_lr_factor <= 1.0, "final_lr_factor is ",
              config.final_lr_factor, ", expected [0, 1]");
  TORCH_CHECK(config.clip_norm > 0.0, "clip_norm is ", config.clip_norm, ", expected a number > 0");
  TORCH_CHECK(config.label_smoothing >= 0.0 && config.label_smoothing < 1.0, "label_smoothing is ",
              config.label_smoothing, ", expected [0, 1)");
  TORCH_CHECK(config.drop_path >= 0.0 && config.drop_path < 1.0, "drop_path is ", config.drop_path,
              ", expected [0, 1)");
  one_of("precision", config.precision, {"fp32", "bf16"});
  one_of("schedule", config.schedule,
         {"constant", "step", "multistep", "cosine", "cosine-per-step"});
  TORCH_CHECK(config.schedule != "step" || config.milestones.size() == 1, "milestones are ",
              c10::IntArrayRef(config.milestones),
              ", expected the one period that schedule 'step' needs");
  TORCH_CHECK(config.schedule != "multistep" || !config.milestones.empty(),
              "milestones are empty, expected those that schedule 'multistep' needs");
}

}  // namespace

void RunConfig::resolve() {
  validate(*this);
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  const auto given = parse_options(optimizer_options);
  const auto base = given.value("base", "sgd");
  auto options = json::parse(default_options(optimizer, base));
  options.update(given);
  optimizer_options = options.dump();
}

std::string RunConfig::to_json() const { return to_object(*this).dump(2) + "\n"; }

RunConfig RunConfig::from_json(const std::string& text, const std::string& source) {
  auto object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  TORCH_CHECK(object.is_object(), "adaact: ", source, " is no configuration: no JSON object");
  RunConfig config;
  try {
    visit_fields(config, [&](const char* name, auto& value) {
      using Value = std::remove_reference_t<decltype(value)>;
      if (!object.contains(name)) return;  // from before there was such a field
      const auto& entry = object.at(name);
      if constexpr (std::is_same_v<Value, double>) {
        value = entry.is_null() ? std::numeric_limits<double>::infinity() : entry.get<double>();
      } else {
        value = entry.template get<Value>();
      }
    });
    config.optimizer_options = object.at(kOptimizerOptions).dump();
    const auto known = to_object(config);
    for (const auto& [name, value] : object.items()) {
      TORCH_CHECK(known.contains(name), "adaact: ", source, ": unknown field '", name,
                  "'; was it written by a newer version?");
    }
  } catch (const json::exception& error) {
    TORCH_CHECK(false, "adaact: ", source, " is no configuration of a run: ", error.what());
  }
  return config;
}

std::vector<std::string> differences(const RunConfig& config, const RunConfig& there) {
  std::vector<std::string> lines;
  const auto compare = [&](const json& ours, const json& theirs, const std::string& prefix) {
    auto names = ours;
    names.update(theirs);
    for (const auto& [name, unused] : names.items()) {
      const auto shown = [name = name](const json& object) {
        return object.contains(name) ? object.at(name).dump() : std::string("absent");
      };
      if (shown(ours) == shown(theirs)) continue;
      lines.push_back(prefix + name + " is " + shown(ours) + ", there it is " + shown(theirs));
    }
  };
  auto ours = to_object(config);
  auto theirs = to_object(there);
  compare(ours[kOptimizerOptions], theirs[kOptimizerOptions], "optimizer option ");
  ours.erase(kOptimizerOptions);
  theirs.erase(kOptimizerOptions);
  compare(ours, theirs, "");
  return lines;
}

}  // namespace adaact
