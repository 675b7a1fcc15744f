#include <map>

#include <adaact/optim/registry.h>

#include "io/file_descriptor.h"
#include "io/json_text.h"
#include "optim/base/describe_options.h"

namespace adaact {

OptimizerConfig OptimizerConfig::read(const std::filesystem::path& path,
                                      const std::string& setting) {
  return parse(read_file(path), setting, path.string());
}

OptimizerConfig OptimizerConfig::parse(const std::string& text, const std::string& setting,
                                       const std::string& source) {
  using nlohmann::json;
  const auto parsed = try_parse_json<json>(text);
  const auto& content = parsed.value;
  TORCH_CHECK(content.is_object() && content.contains("optimizer") &&
                  content["optimizer"].is_string() && content.contains("settings") &&
                  content["settings"].is_object(),
              "adaact: ", source,
              " is no optimizer configuration: expected a JSON object with \"optimizer\" and "
              "\"settings\"",
              parsed.problem.empty() ? "" : "; it is no JSON: " + parsed.problem);
  const auto& settings = content["settings"];
  TORCH_CHECK(settings.contains(setting), "adaact: ", source, " has no setting '", setting,
              "'; there are: ", joined_keys(settings.get<std::map<std::string, json>>()));
  OptimizerConfig config;
  config.optimizer = content["optimizer"].get<std::string>();
  static const EnumNames<DecayRule> rules{{"everything", DecayRule::Everything},
                                          {"no_vectors", DecayRule::NoVectors}};
  option_visitors::FromJson read{source.c_str(), settings[setting], {}};
  read("decay", config.decay, rules);
  config.options = read.given.dump();
  return config;
}

}  // namespace adaact
