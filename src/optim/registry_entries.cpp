#include "optim/registry_entries.h"

#include <utility>

#include <adaact/optim/adaact.h>
#include <adaact/optim/adan.h>
#include <adaact/optim/foof.h>
#include <adaact/optim/kfac.h>
#include <adaact/optim/lamb.h>
#include <adaact/optim/libtorch.h>

#include "optim/libtorch/libtorch_codec.h"

namespace adaact {
namespace {

using nlohmann::json;
using torch::optim::OptimizerParamGroup;

template <typename ReadOptions>
std::vector<OptimizerParamGroup> param_groups(const std::vector<JsonGroup>& groups,
                                              ReadOptions&& read_options) {
  using Options = decltype(read_options(json()));
  std::vector<OptimizerParamGroup> all;
  all.reserve(groups.size());
  for (const auto& group : groups) {
    all.emplace_back(group.parameters, std::make_unique<Options>(read_options(group.options)));
  }
  return all;
}

template <typename Optimizer>
bool is_of(const torch::optim::Optimizer& optimizer) {
  return dynamic_cast<const Optimizer*>(&optimizer) != nullptr;
}

/// Of an optimizer whose class shadows the add_param_group() of LibTorch's.
template <typename Optimizer, typename ReadOptions>
void add_group(torch::optim::Optimizer& optimizer, json all, const JsonGroup& group,
               ReadOptions&& read_options) {
  using Options = decltype(read_options(json()));
  all.update(group.options);
  static_cast<Optimizer&>(optimizer).add_param_group(OptimizerParamGroup(
      group.parameters, std::make_unique<Options>(read_options(std::move(all)))));
}

template <typename Optimizer, typename Options>
RegistryEntry own_entry(const char* name) {
  const auto read = [](const json& given) { return Options::from_json(given.dump()); };
  RegistryEntry entry;
  entry.name = name;
  entry.defaults = [] { return json::parse(Options().to_json()); };
  entry.describe = [] { return json::parse(Options::describe()); };
  entry.check = [read](const json& given) { read(given); };
  entry.make = [read](const LayerMap& model, const std::vector<JsonGroup>& groups,
                      const json& given) {
    return std::make_unique<Optimizer>(model, param_groups(groups, read), read(given));
  };
  entry.is_of = &is_of<Optimizer>;
  entry.add_group = [read](torch::optim::Optimizer& optimizer, const JsonGroup& group) {
    auto all = json::parse(static_cast<const Options&>(optimizer.defaults()).to_json());
    add_group<Optimizer>(optimizer, std::move(all), group, read);
  };
  entry.read_group = [](const torch::optim::Optimizer& optimizer, std::size_t group) {
    return json::parse(
        static_cast<const Options&>(optimizer.param_groups()[group].options()).to_json());
  };
  entry.write_group = [read](torch::optim::Optimizer& optimizer, std::size_t group,
                             const json& all) {
    static_cast<Options&>(optimizer.param_groups()[group].options()) = read(all);
  };
  return entry;
}

template <typename Optimizer, typename Options>
RegistryEntry libtorch_entry(const char* name, const Options& defaults) {
  const auto policy_of = [](json& given) {
    return take_policy(given, OptionDescription<Options>::kOptimizer);
  };
  const auto read = [defaults, policy_of](json given) {
    policy_of(given);
    return options_from_json(given, defaults);
  };
  RegistryEntry entry;
  entry.name = name;
  entry.defaults = [defaults] {
    auto all = options_to_json(defaults);
    write_policy(all, NonFinitePolicy::Throw);
    return all;
  };
  entry.describe = [defaults] {
    auto all = describe_options_of(defaults);
    describe_policy(all);
    return all;
  };
  entry.check = [read](const json& given) { read(given); };
  entry.make = [read, policy_of](const LayerMap& model, const std::vector<JsonGroup>& groups,
                                 json given) {
    const auto options = read(given);
    return std::make_unique<Optimizer>(model, param_groups(groups, read), options,
                                       policy_of(given));
  };
  entry.is_of = &is_of<Optimizer>;
  entry.add_group = [read](torch::optim::Optimizer& optimizer, const JsonGroup& group) {
    auto all = options_to_json(static_cast<const Options&>(optimizer.defaults()));
    add_group<Optimizer>(optimizer, std::move(all), group, read);
  };
  entry.read_group = [](const torch::optim::Optimizer& optimizer, std::size_t group) {
    auto all =
        options_to_json(static_cast<const Options&>(optimizer.param_groups()[group].options()));
    write_policy(all, static_cast<const Optimizer&>(optimizer).non_finite_policy());
    return all;
  };
  entry.write_group = [read, policy_of](torch::optim::Optimizer& optimizer, std::size_t group,
                                        json all) {
    static_cast<Options&>(optimizer.param_groups()[group].options()) = read(all);
    static_cast<Optimizer&>(optimizer).set_non_finite_policy(policy_of(all));
  };
  return entry;
}

}  // namespace

const std::map<std::string, RegistryEntry>& registry_entries() {
  static const auto all = [] {
    std::map<std::string, RegistryEntry> by_name;
    const auto add = [&by_name](RegistryEntry entry) {
      const auto name = entry.name;
      by_name.emplace(name, std::move(entry));
    };
    add(own_entry<AdaAct, AdaActOptions>("adaact"));
    add(own_entry<Adan, AdanOptions>("adan"));
    add(own_entry<Foof, FoofOptions>("foof"));
    add(own_entry<Kfac, KfacOptions>("kfac"));
    add(own_entry<Lamb, LambOptions>("lamb"));
    add(libtorch_entry<SGD>("sgd", torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(5e-4)));
    add(libtorch_entry<Adam>("adam", torch::optim::AdamOptions()));
    add(libtorch_entry<AdamW>("adamw", torch::optim::AdamWOptions()));
    return by_name;
  }();
  return all;
}

}  // namespace adaact
