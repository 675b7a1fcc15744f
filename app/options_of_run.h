#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace adaact::app {

/// The options of a command that make a run like the one whose config.json this is; those that the command
/// does not have are left out. What is no such file is a CLI::ConfigError.
std::vector<CLI::ConfigItem> options_of_run(const std::string& config_json,
                                            const CLI::App& command);

}  // namespace adaact::app
