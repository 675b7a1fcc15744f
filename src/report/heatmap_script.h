#pragma once

#include <filesystem>
#include <string>

#include "report/heatmap.h"

namespace adaact {

/// Commands for gnuplot 5.4 that draw a heatmap twice: as SVG, in the colours that svg_for_page() looks
/// for, and as PNG with title. Some of its values must be drawable.
std::string heatmap_script(const Heatmap& heatmap, const std::filesystem::path& svg,
                           const std::filesystem::path& png);

}  // namespace adaact
