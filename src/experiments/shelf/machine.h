#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <adaact/train/run_config.h>

namespace adaact {

/// Where and how runs are carried out. What a figure says does not depend on it beyond rounding, so
/// that runs of different machines stand in one table.
struct Machine {
  std::string device = "cpu";
  std::string precision = "fp32";
  std::string memory_format = "contiguous";
  bool deterministic = false;
  std::int64_t threads = 0;  // 0: one for each core
  std::int64_t workers = 1;
  std::string image_work = "cpu";
  std::map<std::string, std::string> data_dirs;  // by data set; absent: where it is looked for
};

/// The configuration of a run with the device, the precision and all else that a machine decides.
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
