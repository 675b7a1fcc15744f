#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "command_line.h"
#include "io/error_text.h"
#include "shell_word.h"

namespace adaact::app {

/// The command as it was given, for a page that says how it was made.
inline std::string given_command(const CLI::App& command) {
  auto line = "adaact " + command.get_name();
  for (const auto* option : command.get_options()) {
    if (option->count() == 0) continue;
    const auto name = " --" + option->get_lnames().front();
    if (option->get_items_expected_max() == 0) {
      line += name;
      continue;
    }
    std::string list;
    for (const auto& value : option->results()) {
      const bool of_list = option->get_delimiter() != '\0';
      if (!of_list) line += name + " " + shell_word(value);
      if (of_list) list += (list.empty() ? "" : ",") + value;
    }
    if (!list.empty()) line += name + " " + shell_word(list);
  }
  return line;
}

/// Does what depends on values of the command line alone: what is wrong with them is an error of the
/// command line.
inline void check_usage(const CLI::App& command, const std::function<void()>& check) {
  try {
    check();
  } catch (const CLI::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw CLI::ValidationError(with_option_names(error_text_within_line(error),
                                                 *command.get_parent(), OptionNames::OfValues));
  }
}

}  // namespace adaact::app
