#pragma once

// What the command line says about itself, for whatever is made from it: completion and the man page.

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace adaact::app {

/// The options of a command that its help shows, those with dashes.
inline std::vector<const CLI::Option*> shown_options(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) {
    return !option->get_group().empty() && option->nonpositional();
  });
}

/// What a command takes without dashes: files, folders.
inline std::vector<const CLI::Option*> positionals(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

inline bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

inline std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

}  // namespace adaact::app
