#pragma once

#include <string>

#include "report/heatmap.h"
#include "report/plot.h"

namespace adaact {

struct RenderedPlot {
  /// An <svg> element to be put into a page. Its colours are the page's variables --series-1, …,
  /// --plot-text, --plot-axis and --plot-grid, so that it follows light and dark; its font is the
  /// page's. It has no title and no legend: those wrap better as HTML.
  std::string svg;
  std::string png;  // a file, complete with title and legend, on white
};

/// An error that says what to install where there is no gnuplot.
void check_gnuplot();

/// Runs gnuplot. `id` is put before the ids within the SVG, which are unique in a page if it is.
RenderedPlot render_plot(const Plot& plot, const std::string& id);
RenderedPlot render_heatmap(const Heatmap& heatmap, const std::string& id);

}  // namespace adaact
