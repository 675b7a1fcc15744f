#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "report/heatmap.h"
#include "report/markup.h"
#include "report/plot.h"

namespace adaact {

struct Cell {
  Markup content;
  std::string style;  // of the style sheet: "number", "number best", "wide"; empty: plain text
};

inline Cell number_cell(const std::string& value, bool best = false) {
  return {text(value), best ? "number best" : "number"};
}

/// The first cell of each row is its heading.
struct Table {
  std::string name;
  std::vector<Cell> heading;
  std::vector<std::vector<Cell>> rows;
  bool shows_name = true;  // false under a heading that says it already
};

/// A table in a box of its own, in which a wide one scrolls.
Markup to_markup(const Table& table);

/// Figures side by side where there is room.
Markup figures_markup(const std::vector<Markup>& figures);

/// The line that stands for a series in legends and tables.
Markup swatch(std::size_t style);

/// One HTML page with figures. All that it needs is in it; the figures are PNG files beside it too. A
/// script in it lets figures answer to a reader's pointer.
class Page {
 public:
  /// A page that is served and has no file. Its figures are drawn by the script alone: that takes
  /// neither gnuplot nor time.
  explicit Page(std::string title);

  /// Makes the folder of the figures. A place that cannot be written to is found here, before any
  /// work is done.
  Page(std::filesystem::path path, std::string title);

  void add(const Markup& content) { body_ += content; }
  void add_heading(const std::string& heading);
  void add_paragraph(const std::string& paragraph, const std::string& style = {});
  void add_table(const Table& table) { add(to_markup(table)); }

  /// Draws the plot and writes its PNG under this name. A plot without points is a sentence instead.
  Markup figure(const Plot& plot, const std::string& name, const std::string& caption);
  Markup heatmap(const Heatmap& heatmap, const std::string& name, const std::string& caption);
  void add_figures(const std::vector<Markup>& figures) { add(figures_markup(figures)); }

  /// The whole page. One with a `version` looks for a newer one where it comes from.
  std::string html(const std::optional<std::string>& version = std::nullopt) const;
  /// Writes the page itself; before this an earlier page is untouched.
  void write() const;
  /// Removes a figure of an earlier page; false if it was not there.
  bool remove_figure(const std::string& name) const;

 private:
  /// The address of the PNG, as seen from the page.
  std::string write_png(const std::string& png, const std::string& name) const;

  std::filesystem::path path_;  // empty of a page that is served
  std::filesystem::path figure_folder_;
  std::string title_;
  Markup body_;
};

}  // namespace adaact
