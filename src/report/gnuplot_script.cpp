#include "report/gnuplot_script.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "io/printable.h"
#include "report/gnuplot_words.h"
#include "report/palette.h"
#include "report/plot_svg.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

/// Beyond this number points would hide the line.
constexpr std::size_t kMostMarkedPoints = 24;
constexpr std::size_t kLongestNameInLegend = 40;

/// Whether a byte of UTF-8 continues the character of the byte before.
bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// A long name without its middle, where names of runs are most alike. Cut between characters of
/// UTF-8.
std::string shortened(const std::string& name) {
  if (name.size() <= kLongestNameInLegend) return name;
  auto head = kLongestNameInLegend / 2;
  auto tail = name.size() - kLongestNameInLegend / 2;
  while (head > 0 && continues_character(name[head])) --head;
  while (tail < name.size() && continues_character(name[tail])) ++tail;
  return name.substr(0, head) + "…" + name.substr(tail);
}

std::size_t longest_label(const AxisLayout& layout) {
  std::size_t longest = 0;
  for (const auto& tick : layout.ticks) longest = std::max(longest, letters_in(tick.label));
  return longest;
}

std::string axis_commands(const std::string& name, const Axis& axis, const AxisLayout& layout,
                          const std::string& text_colour) {
  const auto coloured = " textcolor rgb '" + text_colour + "'\n";
  return (axis.scale == Scale::Logarithmic ? "set logscale " + name + "\n" : "") + "set " + name +
         "range [" + digits(layout.low) + ":" + digits(layout.high) + "]\nset " + name + "tics (" +
         tick_list(layout.ticks) + ")" + coloured + "set " + name + "label " + quoted(axis.label) +
         coloured;
}

/// x, y and the band around it, within what is drawn: a logarithm has no other side.
std::string data_blocks(const Plot& plot, const AxisLayout& y) {
  std::string blocks;
  for (std::size_t index = 0; index < plot.series.size(); ++index) {
    blocks += "$series" + std::to_string(index) + " << end_of_data\n";
    for (const auto& point : plot.series[index].points) {
      blocks += digits(point.x) + " " + digits(point.y);
      blocks += " " + digits(std::max(point.y - point.error, y.low));
      blocks += " " + digits(std::min(point.y + point.error, y.high)) + "\n";
    }
    blocks += "end_of_data\n";
  }
  return blocks;
}

/// Bands first, so that no line lies under the band of another.
std::string plot_command(const Plot& plot, const PlotColours& colours) {
  std::string command;
  for (const auto index : series_with_bands(plot)) {
    const auto& series = plot.series[index];
    command += command.empty() ? "plot " : ", \\\n  ";
    command += "$series" + std::to_string(index) + " using 1:3:4 with filledcurves";
    command += " fs transparent solid 0.18 noborder lc rgb '";
    command += colours.series.at(colour_of(series.style)) + "' notitle";
  }
  for (std::size_t index = 0; index < plot.series.size(); ++index) {
    const auto& series = plot.series[index];
    const std::string dashes = dashes_of(series.style);
    const bool marked = series.points.size() <= kMostMarkedPoints;
    command += command.empty() ? "plot " : ", \\\n  ";
    command += "$series" + std::to_string(index) + " using 1:2";
    command += marked ? " with linespoints pt 7 ps 0.5" : " with lines";
    command += " lw 2 lc rgb '" + colours.series.at(colour_of(series.style)) + "'";
    command += dashes.empty() ? " dt solid" : " dt (" + dashes + ")";
    command += " title " + quoted(shortened(series.name));
  }
  return command + "\n";
}

struct PlotLayout {
  explicit PlotLayout(const Plot& plot) {
    std::vector<double> x_values;
    std::vector<double> y_values;
    for (const auto& series : plot.series) {
      for (const auto& point : series.points) {
        x_values.push_back(point.x);
        y_values.push_back(point.y);
        if (point.error == 0.0) continue;
        y_values.push_back(point.y + point.error);
        const auto low = point.y - point.error;
        if (plot.y.scale == Scale::Linear || low > 0.0) y_values.push_back(low);
      }
    }
    x = lay_out(plot.x, x_values);
    y = lay_out(plot.y, y_values);
    // Side by side, long names would run into each other.
    x_labels_rotated = longest_label(x) * x.ticks.size() > 45;
  }

  AxisLayout x;
  AxisLayout y;
  bool x_labels_rotated = false;
};

std::string drawing_commands(const Plot& plot, const PlotLayout& layout,
                             const PlotColours& colours) {
  return "set border 1 lc rgb '" + colours.axis + "'\n" +
         "set tics nomirror out scale 0.4\n"
         "set grid ytics noxtics lt 1 lw 1 lc rgb '" +
         colours.grid + "'\n" + axis_commands("x", plot.x, layout.x, colours.text) +
         axis_commands("y", plot.y, layout.y, colours.text) + "set ytics scale 0\n" +
         (layout.x_labels_rotated ? "set xtics rotate by 40 right\n" : "") +
         plot_command(plot, colours);
}

/// Draws the SVG as small as a phone shows it: then its letters are large enough there. gnuplot
/// does not know how wide letters are in a browser, and would leave more room for them than is
/// needed.
std::string svg_commands(const Plot& plot, const PlotLayout& layout, const fs::path& file) {
  const auto size = std::to_string(kPlotWidth) + "," + std::to_string(kPlotHeight);
  return "set terminal svg size " + size + " dynamic font 'sans,13' noenhanced\n" + "set output " +
         quoted_path(file) + "\nset key off\n" + "set tmargin 0.7\nset rmargin 2\nset lmargin " +
         digits(static_cast<double>(longest_label(layout.y)) + 3.8) + "\n" +
         (layout.x_labels_rotated ? ""
                                  : "set bmargin 2.5\nset xtics offset 0,0.4\n"
                                    "set xlabel offset 0,0.7\n") +
         drawing_commands(plot, layout, marker_colours());
}

/// A line of the legend takes about as much as this.
constexpr std::size_t kLegendLineHeight = 55;

std::size_t legend_lines(const Plot& plot) {
  std::size_t longest = 0;
  for (const auto& series : plot.series) {
    longest = std::max(longest, shortened(series.name).size());
  }
  const std::size_t width_of_one = 170 + 18 * longest;
  const auto columns = std::max<std::size_t>(1, 1200 / width_of_one);
  return (plot.series.size() + columns - 1) / columns;
}

/// The title is the legend's: gnuplot would put its own between the legend and the plot.
std::string png_commands(const Plot& plot, const PlotLayout& layout, const fs::path& file) {
  const auto colours = colours_on_white();
  const auto height = std::to_string(900 + kLegendLineHeight * legend_lines(plot));
  return "set terminal pngcairo size 1320," + height +
         " font 'sans,11' fontscale 2.4 linewidth 2.4 pointscale 2.4 noenhanced"
         " background rgb 'white'\n"
         "set output " +
         quoted_path(file) +
         "\nset tmargin\nset lmargin\nset bmargin\nset rmargin 3\n"
         "set xtics offset 0,0\nset xlabel offset 0,0\nset key title " +
         quoted(plot.title) + "\nset key outside above center horizontal reverse Left spacing 1.3" +
         " textcolor rgb '" + colours.text + "'\n" + drawing_commands(plot, layout, colours) +
         "set output\n";
}

}  // namespace

PlotColours colours_on_white() {
  PlotColours colours{"#1c2024", "#8a929c", "#dfe3e8", {}};
  for (const auto& colour : kSeriesColours) colours.series.emplace_back(colour.on_light);
  return colours;
}

std::vector<std::size_t> series_with_bands(const Plot& plot) {
  std::vector<std::size_t> with_bands;
  for (std::size_t index = 0; index < plot.series.size(); ++index) {
    if (plot.series[index].has_band()) with_bands.push_back(index);
  }
  return with_bands;
}

std::string gnuplot_script(const Plot& plot, const fs::path& svg, const fs::path& png) {
  const PlotLayout layout(plot);
  return "set encoding utf8\n" + data_blocks(plot, layout.y) + svg_commands(plot, layout, svg) +
         png_commands(plot, layout, png);
}

}  // namespace adaact
