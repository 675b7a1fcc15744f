#include "report/heatmap_script.h"

#include <algorithm>
#include <vector>

#include "report/gnuplot_script.h"
#include "report/gnuplot_words.h"
#include "report/plot_svg.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

/// Viridis: from dark to bright for every eye, on light pages and on dark ones.
constexpr char kPalette[] =
    "set palette defined (0 '#440154', 1 '#414487', 2 '#2a788e', 3 '#22a884', 4 '#7ad151', "
    "5 '#fde725')\n";

/// Flatter than this a picture would be a line; higher than wide it would not fit into the page.
constexpr double kFlattest = 0.4;
constexpr double kHighest = 1.0;

std::string data_block(const Heatmap& heatmap) {
  std::string block = "$values << end_of_data\n";
  for (std::size_t index = 0; index < heatmap.values.size(); ++index) {
    const float value = heatmap.values[index];
    const bool ends_row = (index + 1) % heatmap.columns == 0;
    block += can_be_drawn(value, heatmap) ? digits(value) : "NaN";
    block += ends_row ? '\n' : ' ';
  }
  return block + "end_of_data\n";
}

std::vector<Tick> index_ticks(std::size_t count) {
  Axis axis;
  axis.whole_numbers = true;
  axis.tight = true;
  return lay_out(axis, {0.0, static_cast<double>(count - 1)}).ticks;
}

AxisLayout colour_layout(const Heatmap& heatmap) {
  Axis axis;
  axis.scale = heatmap.logarithmic ? Scale::Logarithmic : Scale::Linear;
  axis.tight = true;
  std::vector<double> values;
  for (const float value : heatmap.values) {
    if (can_be_drawn(value, heatmap)) values.push_back(value);
  }
  return lay_out(axis, values);
}

std::string ticks_command(const std::string& axis, const std::vector<Tick>& ticks,
                          const PlotColours& colours) {
  return "set " + axis + "tics nomirror out scale 0.4 (" + tick_list(ticks) + ") textcolor rgb '" +
         colours.text + "'\n";
}

std::string drawing_commands(const Heatmap& heatmap, const PlotColours& colours) {
  const auto rows = static_cast<double>(heatmap.rows);
  const auto columns = static_cast<double>(heatmap.columns);
  const auto colour = colour_layout(heatmap);
  return kPalette + std::string(heatmap.logarithmic ? "set logscale cb\n" : "") + "set cbrange [" +
         digits(colour.low) + ":" + digits(colour.high) + "]\n" +
         ticks_command("cb", colour.ticks, colours) +
         ticks_command("x", index_ticks(heatmap.columns), colours) +
         ticks_command("y", index_ticks(heatmap.rows), colours) + "set border lc rgb '" +
         colours.axis + "'\nset size ratio " +
         digits(std::clamp(rows / columns, kFlattest, kHighest)) +
         "\nset xrange [-0.5:" + digits(columns - 0.5) + "]\nset yrange [" + digits(rows - 0.5) +
         ":-0.5]\n" + "plot $values matrix with image\n";
}

std::string svg_commands(const Heatmap& heatmap, const fs::path& file) {
  return "set terminal svg size " + std::to_string(kPlotWidth) + "," + std::to_string(kPlotHeight) +
         " dynamic font 'sans,13' noenhanced\nset output " + quoted_path(file) +
         "\nset tmargin 0.7\nset bmargin 1.8\n" + drawing_commands(heatmap, marker_colours());
}

std::string png_commands(const Heatmap& heatmap, const fs::path& file) {
  const auto colours = colours_on_white();
  return "set terminal pngcairo size 1320,950 font 'sans,11' fontscale 2.4 linewidth 2.4"
         " noenhanced background rgb 'white'\nset output " +
         quoted_path(file) + "\nset tmargin\nset bmargin\nset title " + quoted(heatmap.title) +
         " textcolor rgb '" + colours.text + "'\n" + drawing_commands(heatmap, colours) +
         "set output\n";
}

}  // namespace

std::string heatmap_script(const Heatmap& heatmap, const fs::path& svg, const fs::path& png) {
  return "set encoding utf8\nset key off\n" + data_block(heatmap) + svg_commands(heatmap, svg) +
         png_commands(heatmap, png);
}

}  // namespace adaact
