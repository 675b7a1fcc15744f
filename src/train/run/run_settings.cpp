#include "train/run/run_settings.h"

#include <string>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "io/error_text.h"
#include "io/file_descriptor.h"
#include "io/json_text.h"
#include "train/run/run_file_names.h"

namespace adaact {
namespace {

using nlohmann::json;

/// Tells `visit` the name and the place of each setting: for writing and for reading.
template <typename Settings, typename Visitor>
void visit_settings(Settings& settings, Visitor&& visit) {
  visit("checkpoint_every", settings.checkpoint_every);
  visit("keep_checkpoints", settings.keep_checkpoints);
  visit("save_best", settings.save_best);
  visit("workers", settings.workers);
  visit("update_norm_every", settings.update_norm_every);
  visit("graph", settings.graph);
  visit("image_work", settings.image_work);
  visit("activation_variances", settings.activation_variances);
}

void read_setting(const char* name, const json& entry, std::int64_t& value) {
  value = whole_number(entry, name);
}
void read_setting(const char* name, const json& entry, bool& value) {
  TORCH_CHECK(entry.is_boolean(), name, " is ", entry.dump(), ", expected true or false");
  value = entry.get<bool>();
}

void read_setting(const char* name, const json& entry, std::string& value) {
  TORCH_CHECK(entry.is_string(), name, " is ", entry.dump(), ", expected a text");
  value = entry.get<std::string>();
}

}  // namespace

json to_json(const RunSettings& settings) {
  auto object = json::object();
  visit_settings(settings, [&](const char* name, const auto& value) { object[name] = value; });
  return object;
}

std::string settings_text(const RunSettings& settings) {
  return json{{kSettingsField, to_json(settings)}}.dump();
}

RunSettings RunSettings::read(const std::filesystem::path& config_file) {
  return from_json(read_file(config_file), config_file.string());
}

RunSettings RunSettings::from_json(const std::string& text, const std::string& source) {
  RunSettings settings;
  const auto config = parse_json<json>(text, source);
  if (!config.is_object() || !config.contains(kSettingsField)) return settings;
  const auto& given = config.at(kSettingsField);
  try {
    TORCH_CHECK(given.is_object(), "they are no JSON object");
    const auto known = to_json(settings);
    for (const auto& [name, value] : given.items()) {
      TORCH_CHECK(known.contains(name), "there is no '", name, "'");
    }
    visit_settings(settings, [&](const char* name, auto& value) {
      if (given.contains(name)) read_setting(name, given.at(name), value);
    });
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "adaact: the settings in ", source,
                " cannot be followed: ", error_text_within_line(error));
  }
  return settings;
}

}  // namespace adaact
