#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace adaact::app {

/// `--config FILE` for every subcommand: TOML whose names are the long options without their dashes, or the
/// config.json of a run.
void add_config_file(CLI::App& app);

/// Makes an empty value an error: CLI11 would take `--lr ""` for 0.
void refuse_empty_values(CLI::App& command);

/// Which words of a message can be those of an option.
enum class OptionNames {
  OfFields,  // names with an underscore, wherever they stand
  OfValues,  // of a message about a value that was typed: "model is …" at its beginning, too
};

/// A message with options in the place of fields: "clip_norm is -1" becomes "--clip-norm is -1".
std::string with_option_names(std::string message, const CLI::App& app, OptionNames names);

/// What is wrong with a command line, in one line that says what to do.
std::string explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace adaact::app
