#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <torch/optim/optimizer.h>
#include <nlohmann/json.hpp>

namespace adaact {

/// Parameters with all of their options.
struct JsonGroup {
  std::vector<torch::Tensor> parameters;
  nlohmann::json options;
};

/// What the registry can do with one kind of optimizer; SAM, which is made of another, is none of them.
struct RegistryEntry {
  using json = nlohmann::json;
  using Optimizer = torch::optim::Optimizer;

  std::string name;  // "adaact"
  std::function<json()> defaults;
  std::function<json()> describe;
  std::function<void(const json&)> check;
  /// No groups stand for one of all parameters.
  std::function<std::unique_ptr<Optimizer>(const LayerMap&, const std::vector<JsonGroup>&,
                                           const json&)>
      make;
  std::function<bool(const Optimizer&)> is_of;
  /// Options that are absent are the optimizer's defaults.
  std::function<void(Optimizer&, const JsonGroup&)> add_group;
  // The options of one parameter group.
  std::function<json(const Optimizer&, std::size_t)> read_group;
  std::function<void(Optimizer&, std::size_t, const json&)> write_group;
};

const std::map<std::string, RegistryEntry>& registry_entries();

}  // namespace adaact
