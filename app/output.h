#pragma once

#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "shell_word.h"

namespace adaact::app {

/// How much a command prints.
enum class Verbosity { Normal, Quiet, Json };

/// What --quiet and --json ask for.
struct OutputOptions {
  bool quiet = false;
  bool json = false;

  Verbosity verbosity() const {
    if (json) return Verbosity::Json;
    return quiet ? Verbosity::Quiet : Verbosity::Normal;
  }
};

inline void add_output_options(CLI::App& command, OutputOptions& output) {
  command.add_flag("--quiet", output.quiet, "Print nothing but errors");
  command.add_flag("--json", output.json, "Print the result as JSON and nothing else");
}

/// What is said of a training that a signal has ended.
inline std::string interrupted_text(const std::string& out) {
  return "interrupted; all is saved, and adaact train --out " + shell_word(out) +
         " --resume goes on";
}

inline void say(Verbosity verbosity, const std::string& line) {
  if (verbosity == Verbosity::Normal) std::printf("%s\n", line.c_str());
}

/// File names may hold bytes that JSON cannot: they are replaced, and the rest is not lost.
template <typename Json>
void print_json(const Json& value) {
  const auto text = value.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  std::printf("%s\n", text.c_str());
}

}  // namespace adaact::app
