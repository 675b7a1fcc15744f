#pragma once

#include <cstdio>
#include <string>

#include <adaact/optim/registry.h>
#include <adaact/train/run_config.h>
#include <nlohmann/json.hpp>

#include "io/json_text.h"

namespace adaact::app {

/// "; try a smaller learning rate in another folder: --lr 0.03": a third of the rate that a run diverged
/// with, and no more than the optimizer's default. `config` is resolved.
inline std::string advice_after_divergence(const RunConfig& config) {
  using nlohmann::json;
  const auto options = parse_json<json>(config.optimizer_options, "the optimizer's options");
  const auto base = options.value("base", "sgd");
  const auto usual = json::parse(default_options(config.optimizer, base)).value("lr", 0.1);
  const auto rate = options.value("lr", usual);
  char text[32];
  std::snprintf(text, sizeof(text), "%.1g", rate > usual ? usual : 0.3 * rate);
  return std::string("; try a smaller learning rate in another folder: --lr ") + text;
}

}  // namespace adaact::app
