#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace adaact {

struct ReportOptions {
  std::string title;    // empty: made of the runs
  std::string command;  // that makes this report; empty: not shown
  /// Shown at the end of the page: versions, the machine, the date.
  std::vector<std::pair<std::string, std::string>> facts;
};

/// Writes one HTML page that compares runs, finished or not: summary, curves, activation second
/// moments and what differs in their configurations. The page needs no other file. Its figures are
/// also written as PNG, into the folder `<name of the page>_figures` beside it. An earlier report is
/// replaced. Needs gnuplot on the PATH.
void write_report(const std::vector<std::filesystem::path>& runs, const std::filesystem::path& page,
                  const ReportOptions& options = {});

}  // namespace adaact
