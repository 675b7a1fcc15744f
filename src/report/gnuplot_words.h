#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/plot.h"

namespace adaact {

// Text and numbers as they stand in a script for gnuplot.

/// In single quotes gnuplot expands nothing, neither `commands` nor @macros.
std::string quoted(const std::string& words);
std::string quoted_path(const std::filesystem::path& path);

std::string digits(double value);

/// 'label' position, …
std::string tick_list(const std::vector<Tick>& ticks);

}  // namespace adaact
