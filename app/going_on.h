#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <adaact/train/run_config.h>
#include <CLI/CLI.hpp>

namespace adaact::app {

/// What `train --resume` finds: a run, or runs of several seeds below the folder.
struct BegunRun {
  std::filesystem::path config_file;  // of several the one with most epochs
  std::vector<std::uint64_t> seeds;   // ascending; empty of a single run
};
std::optional<BegunRun> begun_run_in(const std::filesystem::path& folder);

/// Gives `config`, where the options of `command` write to, the values of a run, and on top of these once
/// more what was typed. A typed value that differs from the run's and may not is a c10::ValueError.
void go_on_with(RunConfig& config, const BegunRun& begun, CLI::App& command);

/// A folder that is not there is where a run begins, unless nothing was said of what to train: then
/// somebody has mistyped its name. That is a c10::ValueError.
void check_it_may_begin(const std::string& folder, const CLI::App& command);

}  // namespace adaact::app
