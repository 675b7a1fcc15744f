#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "io/printable.h"
#include "padded.h"

namespace adaact::app {

/// A table for a terminal. Columns are as wide as what is in them, and as asked for at least.
class TextTable {
 public:
  enum class Align { Left, Right };

  void add_column(std::string heading, std::size_t width, Align align) {
    columns_.push_back({std::move(heading), width, align});
  }

  /// A cell for each column; what more there is stands behind them.
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  void print() {
    for (auto& column : columns_) column.width = std::max(column.width, letters_in(column.heading));
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        columns_[i].width = std::max(columns_[i].width, letters_in(row[i]));
      }
    }
    std::vector<std::string> headings;
    headings.reserve(columns_.size());
    for (const auto& column : columns_) headings.push_back(column.heading);
    print_row(headings);
    for (const auto& row : rows_) print_row(row);
  }

 private:
  struct Column {
    std::string heading;
    std::size_t width;
    Align align;
  };

  void print_row(const std::vector<std::string>& cells) const {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) line += "  ";
      if (i >= columns_.size()) {
        line += cells[i];
      } else if (columns_[i].align == Align::Left) {
        line += padded(cells[i], columns_[i].width);
      } else {
        const auto letters = letters_in(cells[i]);
        line += std::string(columns_[i].width - letters, ' ') + cells[i];
      }
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", line.c_str());
  }

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace adaact::app
