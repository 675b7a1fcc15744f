#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <adaact/report/report.h>
#include <adaact/report/run_history.h>
#include <adaact/train/test_details.h>

namespace adaact {

/// A run as it is called in a report.
struct NamedRun {
  std::string name;
  RunHistory history;
  std::optional<TestDetails> details = {};  // of a finished run that has them
};

/// Names for different paths: the last part, with as many parents as it takes to tell them apart.
std::vector<std::string> distinct_names(const std::vector<std::filesystem::path>& paths);

/// A path without "." and "..", and without a slash at the end.
std::filesystem::path full_path(const std::filesystem::path& folder);

/// One run with all that a report needs of it, not named yet.
NamedRun read_run(const std::filesystem::path& folder);
void name_by_folders(std::vector<NamedRun>& runs);

/// Reads the runs that find_runs() finds and calls them by their folders.
std::vector<NamedRun> read_runs(const std::vector<std::filesystem::path>& folders);

/// A report on runs that were read already.
void write_report(const std::vector<NamedRun>& runs, const std::filesystem::path& page,
                  const ReportOptions& options);

/// The report as HTML, for a browser that draws the figures itself: without gnuplot and without files. It
/// tells the browser to look for a newer `version` from time to time.
std::string live_report(const std::vector<NamedRun>& runs, const ReportOptions& options,
                        const std::string& version);

}  // namespace adaact
