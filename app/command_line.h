#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace adaact::app {

/// `--config FILE` for every subcommand: TOML whose names are the long options without their dashes.
void add_config_file(CLI::App& app);

/// `--lr ""` would be 0.
void refuse_empty_values(CLI::App& command);

/// "clip_norm is -1" as the person who typed --clip-norm knows it.
std::string with_option_names(std::string message, const CLI::App& app);

/// What is wrong with a command line, in one line that says what to do.
std::string explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace adaact::app
