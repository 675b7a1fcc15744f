#include <adaact/optim/registry.h>

#include <algorithm>
#include <map>
#include <utility>

#include <adaact/optim/param_groups.h>
#include <adaact/optim/sam.h>

#include "io/joined.h"
#include "io/json_text.h"
#include "optim/libtorch/libtorch_codec.h"
#include "optim/registry_entries.h"

namespace adaact {
namespace {

using nlohmann::json;
using OptimizerPointer = std::unique_ptr<torch::optim::Optimizer>;

constexpr char kBase[] = "base";
constexpr char kSam[] = "sam";

const RegistryEntry& find_entry(const std::string& name) {
  const auto found = registry_entries().find(name);
  TORCH_CHECK(found != registry_entries().end(), "adaact: there is no optimizer '", name,
              "'; there are: ", joined(optimizer_names()));
  return found->second;
}

const RegistryEntry& entry_of(const torch::optim::Optimizer& optimizer) {
  for (const auto& [name, entry] : registry_entries()) {
    if (entry.is_of(optimizer)) return entry;
  }
  TORCH_CHECK(false, "adaact: this optimizer is none that make_optimizer() makes");
}

std::string checked_base(const json& base) {
  const bool known = base.is_string() && registry_entries().count(base.get<std::string>()) != 0;
  TORCH_CHECK(known, "Sam: base is ", base.dump(),
              ", expected one of: ", joined_keys(registry_entries()));
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

/// The learning rate, the policy and whatever else both have is the base's.
void take_over(SamOptions& options, const SamOptions& given) {
  options.rho(given.rho()).adaptive(given.adaptive()).non_finite_policy(given.non_finite_policy());
}

std::unique_ptr<Sam> make_sam(const LayerMap& model, const std::vector<OptionGroup>& groups,
                              const json& given, std::vector<torch::Tensor> buffers) {
  const auto parts = sam_parts(given);
  std::vector<JsonGroup> of_base;
  std::vector<SamOptions> of_sam;
  for (const auto& group : groups) {
    auto all = given;
    all.update(parse_object(kSam, group.options));
    auto parts_of_group = sam_parts(all);
    of_base.push_back({group.parameters, std::move(parts_of_group.of_base)});
    of_sam.push_back(parts_of_group.options);
  }
  auto sam = std::make_unique<Sam>(model, std::move(buffers),
                                   find_entry(parts.base).make(model, of_base, parts.of_base),
                                   parts.options);
  for (std::size_t g = 0; g < of_sam.size(); ++g) {
    take_over(static_cast<SamOptions&>(sam->param_groups()[g].options()), of_sam[g]);
  }
  return sam;
}

std::vector<OptionGroup> groups_for(torch::nn::Module& module, DecayRule decay) {
  if (decay == DecayRule::Everything) return {};
  auto split = split_for_weight_decay(module);
  std::vector<OptionGroup> groups;
  if (!split.decay.empty()) groups.push_back({std::move(split.decay), "{}"});
  if (!split.no_decay.empty()) {
    groups.push_back({std::move(split.no_decay), R"({"weight_decay": 0.0})"});
  }
  return groups;
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : registry_entries()) names.push_back(name);
  names.emplace_back(kSam);
  std::sort(names.begin(), names.end());
  return names;
}

OptimizerPointer make_optimizer(const std::string& name, torch::nn::Module& module,
                                const std::string& options, DecayRule decay) {
  return make_optimizer(name, LayerMap(module), groups_for(module, decay), options,
                        module.buffers());
}

OptimizerPointer make_optimizer(const std::string& name, const LayerMap& model,
                                const std::vector<OptionGroup>& groups, const std::string& options,
                                std::vector<torch::Tensor> buffers) {
  const auto given = parse_object(name, options);
  if (name == kSam) return make_sam(model, groups, given, std::move(buffers));
  std::vector<JsonGroup> parsed;
  for (const auto& group : groups) {
    auto all = given;
    all.update(parse_object(name, group.options));
    parsed.push_back({group.parameters, std::move(all)});
  }
  return find_entry(name).make(model, parsed, given);
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

std::string describe_options(const std::string& name, const std::string& sam_base) {
  if (name != kSam) return find_entry(name).describe().dump();
  auto all = json::parse(SamOptions::describe());
  for (auto& option : find_entry(checked_base(sam_base)).describe()) {
    if (option["name"] != kPolicyOption) all.push_back(std::move(option));
  }
  return all.dump();
}

std::string group_options(const torch::optim::Optimizer& optimizer, std::size_t group) {
  const auto* sam = dynamic_cast<const Sam*>(&optimizer);
  if (sam == nullptr) return entry_of(optimizer).read_group(optimizer, group).dump();
  auto all = entry_of(sam->base()).read_group(sam->base(), group);
  const auto& options = static_cast<const SamOptions&>(sam->param_groups()[group].options());
  all.update(json::parse(options.to_json()));
  return all.dump();
}

void add_option_group(torch::optim::Optimizer& optimizer, const OptionGroup& group) {
  auto given = parse_object("a parameter group", group.options);
  auto* sam = dynamic_cast<Sam*>(&optimizer);
  if (sam == nullptr) {
    return entry_of(optimizer).add_group(optimizer, {group.parameters, std::move(given)});
  }
  const auto& entry = entry_of(sam->base());
  auto all = json::parse(static_cast<const SamOptions&>(sam->defaults()).to_json());
  all.update(given);
  all[kBase] = entry.name;
  const auto parts = sam_parts(all);
  entry.add_group(sam->base(), {group.parameters, parts.of_base});
  sam->follow_base_groups();
  take_over(static_cast<SamOptions&>(sam->param_groups().back().options()), parts.options);
}

void change_group_options(torch::optim::Optimizer& optimizer, std::size_t group,
                          const std::string& options) {
  auto all = json::parse(group_options(optimizer, group));
  auto* sam = dynamic_cast<Sam*>(&optimizer);
  const auto& entry = entry_of(sam == nullptr ? optimizer : sam->base());
  all.update(parse_object("a parameter group", options));
  if (sam == nullptr) return entry.write_group(optimizer, group, all);
  all[kBase] = entry.name;
  const auto parts = sam_parts(all);
  entry.write_group(sam->base(), group, parts.of_base);
  take_over(static_cast<SamOptions&>(sam->param_groups()[group].options()), parts.options);
}

NamedState named_state(torch::optim::Optimizer& optimizer) {
  auto* named = dynamic_cast<HasNamedState*>(&optimizer);
  TORCH_CHECK(named != nullptr,
              "adaact: this optimizer's state has no names; make it with make_optimizer(), or as "
              "adaact::SGD, adaact::Adam or adaact::AdamW");
  return NamedState(*named);
}

}  // namespace adaact
