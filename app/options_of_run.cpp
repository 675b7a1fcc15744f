#include "options_of_run.h"

#include <algorithm>
#include <map>

#include <adaact/train/run_config.h>
#include <adaact/train/training_run.h>
#include <nlohmann/json.hpp>

#include "io/error_text.h"
#include "io/json_text.h"
#include "train/run/run_file_names.h"

namespace adaact::app {
namespace {

using nlohmann::json;

constexpr char kOptimizerOptionsField[] = "optimizer_options";

/// Fields that an option turns off.
const std::map<std::string, std::string>& off_switches() {
  static const std::map<std::string, std::string> all{{"augment", "no-augment"},
                                                      {"batchnorm", "no-batchnorm"},
                                                      {"decay_vectors", "no-vector-decay"}};
  return all;
}

std::string option_text(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// What would be typed for a field; nothing where it is what it is without a word.
std::vector<std::string> typed_for(const std::string& field, const json& value) {
  if (field == "graph") return {value.get<bool>() ? "on" : "off"};
  if (off_switches().count(field) > 0) {
    return value.get<bool>() ? std::vector<std::string>{} : std::vector<std::string>{"true"};
  }
  if (value.is_null() || value == false || value == "") return {};
  if (!value.is_array()) return {option_text(value)};
  std::vector<std::string> words;
  for (const auto& each : value) words.push_back(option_text(each));
  return words;
}

std::string option_of(const std::string& field) {
  const auto off = off_switches().find(field);
  auto name = off == off_switches().end() ? field : off->second;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// What was typed beside the file.
class TypedOptions {
 public:
  explicit TypedOptions(const CLI::App& command) : command_(command) {}

  bool has(const std::string& option) const {
    const auto* found = command_.get_option_no_throw(option);
    return found != nullptr && found->count() > 0;
  }
  /// Whether the option was typed, with another value than these.
  bool has_other_than(const std::string& option, const std::vector<std::string>& values) const {
    if (!has(option)) return false;
    const auto typed = command_.get_option(option)->as<std::string>();
    return std::find(values.begin(), values.end(), typed) == values.end();
  }
  bool has_value(const std::string& option, const std::string& value) const {
    return has(option) && !has_other_than(option, {value});
  }

 private:
  const CLI::App& command_;
};

/// Fields that say the same as an option does, or nothing beside it.
bool another_takes_the_place(const std::string& field, const TypedOptions& typed) {
  static const std::multimap<std::string, std::string> in_place_of{{"seed", "--seeds"},
                                                                   {"crop", "--no-augment"},
                                                                   {"crop_scale", "--no-augment"},
                                                                   {"rand_augment", "--no-augment"},
                                                                   {"erase", "--no-augment"},
                                                                   {"mixup", "--no-augment"},
                                                                   {"cutmix", "--no-augment"},
                                                                   {"resize_size", "--crop-ratio"},
                                                                   {"crop_ratio", "--resize-size"},
                                                                   {"final_lr_factor", "--min-lr"},
                                                                   {"min_lr", "--final-lr-factor"}};
  const auto [first, last] = in_place_of.equal_range(field);
  return std::any_of(first, last, [&](const auto& entry) { return typed.has(entry.second); });
}

/// Whether the value in the file gives way to another that was typed and with which it makes no sense.
bool gives_way(const std::string& field, const json& fields, const TypedOptions& typed) {
  if (another_takes_the_place(field, typed)) return true;
  if (field == "resize_size") {
    // What it follows from says it, of images of another size too.
    return fields.value("crop_ratio", 0.0) != 0.0;
  }
  if (field == "crop_scale") return typed.has_other_than("--crop", {"resized"});
  if (field == "min_lr" || field == "final_lr_factor") {
    return typed.has_other_than("--schedule", {"cosine", "cosine-per-step"});
  }
  if (field == "milestones") return typed.has_other_than("--schedule", {"step", "multistep"});
  if (field == "warmup_lr") return typed.has_value("--warmup-epochs", "0");
  if (field == kOptimizerOptionsField) {
    return typed.has_other_than("--optimizer", {fields.at("optimizer").get<std::string>()});
  }
  return false;
}

}  // namespace

std::vector<CLI::ConfigItem> options_of_run(const std::string& config_json,
                                            const CLI::App& command) {
  const std::string source = "the configuration file";
  json fields;
  try {
    RunConfig::from_json(config_json, source);  // or an error that says what is wrong
    RunSettings::from_json(config_json, source);
    fields = parse_json<json>(config_json, source);
  } catch (const c10::Error& error) {
    throw CLI::ConfigError(error_text_within_line(error), CLI::ExitCodes::ConfigError);
  }
  if (fields.contains(kSettingsField)) {
    const auto settings = fields.at(kSettingsField);
    fields.erase(kSettingsField);
    fields.update(settings);
  }
  const TypedOptions typed(command);
  std::vector<CLI::ConfigItem> items;
  for (const auto& [field, value] : fields.items()) {
    CLI::ConfigItem item;
    item.parents = {command.get_name()};
    item.name = option_of(field);
    item.inputs = typed_for(field, value);
    const bool known = command.get_option_no_throw("--" + item.name) != nullptr;
    if (known && !item.inputs.empty() && !gives_way(field, fields, typed)) {
      items.push_back(std::move(item));
    }
  }
  return items;
}

}  // namespace adaact::app
