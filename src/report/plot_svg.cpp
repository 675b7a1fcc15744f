#include "report/plot_svg.h"

#include <cstdio>
#include <utility>

#include <c10/util/Exception.h>

#include "report/markup.h"
#include "report/palette.h"

namespace adaact {
namespace {

constexpr int kMarkerRed = 0xC0;
constexpr int kTextMarker = 1;
constexpr int kAxisMarker = 2;
constexpr int kGridMarker = 3;
constexpr int kFirstSeriesMarker = 16;

std::string marker(int number) {
  char colour[16];
  std::snprintf(colour, sizeof(colour), "#%02x00%02x", kMarkerRed, number);
  return colour;
}

void replace_all(std::string& where, const std::string& what, const std::string& by) {
  std::string result;
  std::size_t from = 0;
  for (auto at = where.find(what); at != std::string::npos; at = where.find(what, from)) {
    result.append(where, from, at - from).append(by);
    from = at + what.size();
  }
  where = result.append(where, from, std::string::npos);
}

/// gnuplot writes colours of lines with spaces, those of letters without.
void replace_marker(std::string& svg, int number, const std::string& variable) {
  for (const char* format : {"rgb(%3d, %3d, %3d)", "rgb(%d,%d,%d)"}) {
    char written[32];
    std::snprintf(written, sizeof(written), format, kMarkerRed, 0, number);
    replace_all(svg, written, "var(" + variable + ")");
  }
}

void replace_colours(std::string& svg) {
  replace_marker(svg, kTextMarker, "--plot-text");
  replace_marker(svg, kAxisMarker, "--plot-axis");
  replace_marker(svg, kGridMarker, "--plot-grid");
  for (std::size_t index = 0; index < kSeriesColours.size(); ++index) {
    replace_marker(svg, kFirstSeriesMarker + static_cast<int>(index), colour_variable(index));
  }
}

void make_ids_unique(std::string& svg, const std::string& id) {
  for (const std::string start : {"id='", "id=\"", "xlink:href='#"}) {
    replace_all(svg, start, start + id + "-");
  }
}

/// Puts the names of series into the titles that a browser shows where the pointer rests.
void name_series(std::string& svg, const std::vector<std::string>& names) {
  for (std::size_t index = 0; index < names.size(); ++index) {
    replace_all(svg, "<title>gnuplot_plot_" + std::to_string(index + 1) + "</title>",
                "<title>" + text(names[index]).html + "</title>");
  }
}

/// Groups in which nothing is drawn are half of what gnuplot writes.
void remove_empty_groups(std::string& svg) {
  std::string result;
  std::size_t from = 0;
  const std::string start = "<g fill=\"none\" color=";
  const std::string end = "\">\n</g>\n";
  for (auto at = svg.find(start); at != std::string::npos; at = svg.find(start, at + 1)) {
    const auto close = svg.find('>', at);
    if (close == std::string::npos || svg.compare(close - 1, end.size(), end) != 0) continue;
    result.append(svg, from, at - from);
    from = close - 1 + end.size();
  }
  svg = result.append(svg, from, std::string::npos);
}

}  // namespace

PlotColours marker_colours() {
  PlotColours colours{marker(kTextMarker), marker(kAxisMarker), marker(kGridMarker), {}};
  for (std::size_t index = 0; index < kSeriesColours.size(); ++index) {
    colours.series.push_back(marker(kFirstSeriesMarker + static_cast<int>(index)));
  }
  return colours;
}

std::string svg_for_page(const std::string& file, const std::string& title,
                         const std::vector<std::string>& names, const std::string& id) {
  const auto begin = file.find("<g id=\"gnuplot_canvas\">");
  const auto end = file.rfind("</svg>");
  TORCH_CHECK(begin != std::string::npos && end != std::string::npos && begin < end,
              "adaact: gnuplot wrote an SVG that is not understood, for '", title,
              "'; expected one of gnuplot 5.4");
  auto content = file.substr(begin, end - begin);
  remove_empty_groups(content);
  replace_colours(content);
  make_ids_unique(content, id);
  name_series(content, names);
  replace_all(content, " font-family=\"sans\"", "");  // so that it has the page's
  const auto box = "0 0 " + std::to_string(kPlotWidth) + " " + std::to_string(kPlotHeight);
  const Attributes attributes{
      {"class", "plot"}, {"viewBox", box}, {"role", "img"}, {"aria-label", title}};
  return element("svg", attributes, {"\n" + content}).html;
}

}  // namespace adaact
