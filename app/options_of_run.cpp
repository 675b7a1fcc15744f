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

/// Whether the value in the file gives way to another that was typed and with which it makes no sense.
bool gives_way(const std::string& field, const json& fields, const CLI::App& command) {
  const auto typed = [&](const char* option) {
    const auto* found = command.get_option_no_throw(option);
    return found != nullptr && found->count() > 0;
  };
  static const std::map<std::string, const char*> in_place_of{{"seed", "--seeds"},
                                                              {"crop", "--no-augment"},
                                                              {"resize_size", "--crop-ratio"},
                                                              {"crop_ratio", "--resize-size"},
                                                              {"final_lr_factor", "--min-lr"},
                                                              {"min_lr", "--final-lr-factor"}};
  // What it follows from says it, of images of another size too.
  const bool follows = field == "resize_size" && fields.value("crop_ratio", 0.0) != 0.0;
  if (follows) return true;
  const auto other = in_place_of.find(field);
  if (other != in_place_of.end()) return typed(other->second);
  return field == kOptimizerOptionsField && typed("--optimizer") &&
         command.get_option("--optimizer")->as<std::string>() != fields.at("optimizer");
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
  std::vector<CLI::ConfigItem> items;
  for (const auto& [field, value] : fields.items()) {
    CLI::ConfigItem item;
    item.parents = {command.get_name()};
    item.name = option_of(field);
    item.inputs = typed_for(field, value);
    const bool known = command.get_option_no_throw("--" + item.name) != nullptr;
    if (known && !item.inputs.empty() && !gives_way(field, fields, command)) {
      items.push_back(std::move(item));
    }
  }
  return items;
}

}  // namespace adaact::app
