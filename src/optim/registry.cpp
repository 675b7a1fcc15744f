#include <adaact/optim/registry.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include <adaact/optim/adaact.h>
#include <adaact/optim/adan.h>
#include <adaact/optim/foof.h>
#include <adaact/optim/kfac.h>
#include <adaact/optim/lamb.h>
#include <adaact/optim/libtorch.h>
#include <adaact/optim/param_groups.h>
#include <adaact/optim/sam.h>

#include "io/file_descriptor.h"
#include "io/joined.h"
#include "io/json_text.h"
#include "optim/libtorch/libtorch_codec.h"

namespace adaact {
namespace {

using nlohmann::json;
using OptimizerPointer = std::unique_ptr<torch::optim::Optimizer>;

constexpr char kBase[] = "base";
constexpr char kSam[] = "sam";

template <typename Options>
std::vector<torch::optim::OptimizerParamGroup> groups_for(torch::nn::Module& module,
                                                          const Options& options, DecayRule decay) {
  if (decay == DecayRule::Everything) return {};
  return no_decay_groups(module, options);
}

struct Entry {
  std::function<json()> defaults;
  std::function<void(const json&)> check;
  std::function<OptimizerPointer(torch::nn::Module&, const json&, DecayRule)> make;
};

template <typename Optimizer, typename Options>
Entry entry_of() {
  return {[] { return json::parse(Options().to_json()); },
          [](const json& given) { Options::from_json(given.dump()); },
          [](torch::nn::Module& module, const json& given, DecayRule decay) -> OptimizerPointer {
            const auto options = Options::from_json(given.dump());
            return std::make_unique<Optimizer>(module, groups_for(module, options, decay), options);
          }};
}

template <typename Optimizer, typename Options>
Entry libtorch_entry(const Options& defaults) {
  return {[defaults] {
            auto all = options_to_json(defaults);
            write_policy(all, NonFinitePolicy::Throw);
            return all;
          },
          [defaults](json given) {
            take_policy(given, OptionDescription<Options>::kOptimizer);
            options_from_json(given, defaults);
          },
          [defaults](torch::nn::Module& module, json given, DecayRule decay) -> OptimizerPointer {
            const auto policy = take_policy(given, OptionDescription<Options>::kOptimizer);
            const auto options = options_from_json(given, defaults);
            return std::make_unique<Optimizer>(module, groups_for(module, options, decay), options,
                                               policy);
          }};
}

const std::map<std::string, Entry>& entries() {
  static const std::map<std::string, Entry> all{
      {"adaact", entry_of<AdaAct, AdaActOptions>()},
      {"adan", entry_of<Adan, AdanOptions>()},
      {"foof", entry_of<Foof, FoofOptions>()},
      {"kfac", entry_of<Kfac, KfacOptions>()},
      {"lamb", entry_of<Lamb, LambOptions>()},
      {"sgd", libtorch_entry<SGD>(torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(5e-4))},
      {"adam", libtorch_entry<Adam>(torch::optim::AdamOptions())},
      {"adamw", libtorch_entry<AdamW>(torch::optim::AdamWOptions())},
  };
  return all;
}

const Entry& find_entry(const std::string& name) {
  const auto found = entries().find(name);
  TORCH_CHECK(found != entries().end(), "adaact: there is no optimizer '", name,
              "'; there are: ", joined(optimizer_names()));
  return found->second;
}

std::string checked_base(const json& base) {
  const bool known = base.is_string() && entries().count(base.get<std::string>()) != 0;
  TORCH_CHECK(known, "Sam: base is ", base.dump(), ", expected one of: ", joined_keys(entries()));
  return base.get<std::string>();
}

std::string base_of(const json& given) {
  if (!given.contains(kBase)) return "sgd";
  return checked_base(given[kBase]);
}

json sam_defaults(const std::string& base) {
  auto all = find_entry(checked_base(base)).defaults();
  all.update(json::parse(SamOptions().to_json()));
  all[kBase] = base;
  return all;
}

json parse_object(const std::string& name, const std::string& options) {
  auto given = parse_options(options);
  TORCH_CHECK(given.is_object(), "adaact: the options of '", name, "' are ", options,
              ", expected a JSON object");
  return given;
}

/// SAM's own options and those that it hands on.
struct SamParts {
  std::string base;
  SamOptions options;
  json of_base = json::object();
};

SamParts sam_parts(const json& given) {
  SamParts parts;
  parts.base = base_of(given);
  const auto known = sam_defaults(parts.base);
  const auto own = json::parse(SamOptions().to_json());
  auto of_sam = json::object();
  for (const auto& [option, value] : given.items()) {
    TORCH_CHECK(known.contains(option), "Sam over ", parts.base, ": there is no option '", option,
                "'; there are: ", joined_keys(known.get<std::map<std::string, json>>()));
    if (option == kBase) continue;
    (own.contains(option) ? of_sam : parts.of_base)[option] = value;
    if (option == kPolicyOption) parts.of_base[option] = value;
  }
  parts.options = SamOptions::from_json(of_sam.dump());
  return parts;
}

OptimizerPointer make_sam(torch::nn::Module& module, const json& given, DecayRule decay) {
  const auto parts = sam_parts(given);
  return std::make_unique<Sam>(module, find_entry(parts.base).make(module, parts.of_base, decay),
                               parts.options);
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries()) names.push_back(name);
  names.emplace_back(kSam);
  std::sort(names.begin(), names.end());
  return names;
}

OptimizerPointer make_optimizer(const std::string& name, torch::nn::Module& module,
                                const std::string& options, DecayRule decay) {
  const auto given = parse_object(name, options);
  return name == kSam ? make_sam(module, given, decay)
                      : find_entry(name).make(module, given, decay);
}

OptimizerPointer make_optimizer(const OptimizerConfig& config, torch::nn::Module& module) {
  return make_optimizer(config.optimizer, module, config.options, config.decay);
}

std::string default_options(const std::string& name, const std::string& sam_base) {
  return (name == kSam ? sam_defaults(sam_base) : find_entry(name).defaults()).dump();
}

void check_options(const std::string& name, const std::string& options) {
  const auto given = parse_object(name, options);
  if (name != kSam) return find_entry(name).check(given);
  const auto parts = sam_parts(given);
  find_entry(parts.base).check(parts.of_base);
}

std::string complete_options(const std::string& name, const std::string& options) {
  const auto given = parse_object(name, options);
  auto all = name == kSam ? sam_defaults(base_of(given)) : find_entry(name).defaults();
  all.update(given);
  return all.dump();
}

NamedState named_state(torch::optim::Optimizer& optimizer) {
  auto* named = dynamic_cast<HasNamedState*>(&optimizer);
  TORCH_CHECK(named != nullptr,
              "adaact: this optimizer's state has no names; make it with make_optimizer(), or as "
              "adaact::SGD, adaact::Adam or adaact::AdamW");
  return NamedState(*named);
}

OptimizerConfig OptimizerConfig::read(const std::filesystem::path& path,
                                      const std::string& setting) {
  return parse(read_file(path), setting, path.string());
}

OptimizerConfig OptimizerConfig::parse(const std::string& text, const std::string& setting,
                                       const std::string& source) {
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
