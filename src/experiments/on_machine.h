#pragma once

#include <utility>

#include <adaact/train/run_config.h>

#include "experiments/experiment.h"

namespace adaact {

/// A run as it is carried out there.
inline RunConfig on_machine(RunConfig config, const Machine& machine) {
  config.device = machine.device;
  config.precision = machine.precision;
  config.memory_format = machine.memory_format;
  config.deterministic = machine.deterministic;
  config.threads = machine.threads;
  const auto data_dir = machine.data_dirs.find(config.dataset);
  if (data_dir != machine.data_dirs.end()) config.data_dir = data_dir->second;
  return config;
}

}  // namespace adaact
