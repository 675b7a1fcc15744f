#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <adaact/report/report.h>
#include <adaact/report/run_history.h>

namespace adaact {

/// A run as it is called in a report.
struct NamedRun {
  std::string name;
  RunHistory history;
};

/// Reads runs and calls them by their folders, with as many parents as it takes to tell them apart. A
/// folder that is named twice is one run.
std::vector<NamedRun> read_runs(const std::vector<std::filesystem::path>& folders);

/// A report on runs that were read already.
void write_report(const std::vector<NamedRun>& runs, const std::filesystem::path& page,
                  const ReportOptions& options);

}  // namespace adaact
