#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "report/plot.h"
#include "report/plot_svg.h"

namespace adaact {

/// Commands for gnuplot 5.4 that draw a plot twice: as SVG, in the colours that svg_for_page() looks
/// for, and as PNG with title and legend. All points must be drawable.
std::string gnuplot_script(const Plot& plot, const std::filesystem::path& svg,
                           const std::filesystem::path& png);

/// The series whose bands gnuplot draws, before it draws all series.
std::vector<std::size_t> series_with_bands(const Plot& plot);

/// The colours of the PNG.
PlotColours colours_on_white();

}  // namespace adaact
