#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace adaact::app {

/// adaact(1) as troff: what --help says of every command, and exit codes.
std::string man_page(const CLI::App& app);

}  // namespace adaact::app
