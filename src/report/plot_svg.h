#pragma once

#include <string>
#include <vector>

namespace adaact {

struct PlotColours {
  std::string text;
  std::string axis;
  std::string grid;
  std::vector<std::string> series;
};

inline constexpr int kPlotWidth = 400;
inline constexpr int kPlotHeight = 270;

/// gnuplot knows no CSS. It draws an SVG in these colours, which nothing else has, and svg_for_page()
/// puts the page's variables in their place.
PlotColours marker_colours();

/// An <svg> element for a page, from the file that gnuplot wrote. `names` are those of what it plots.
std::string svg_for_page(const std::string& file, const std::string& title,
                         const std::vector<std::string>& names, const std::string& id);

}  // namespace adaact
