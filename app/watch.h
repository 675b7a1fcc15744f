#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include <adaact/report/report.h>

#include "output.h"

namespace adaact::app {

/// Serves a report on the runs below some folders on this machine alone, at 127.0.0.1, until SIGINT or
/// SIGTERM. A browser that shows it follows the runs. Without a port one that is free is chosen. Returns
/// the exit code.
int watch_runs(const std::vector<std::filesystem::path>& folders, const ReportOptions& options,
               std::optional<int> port, Verbosity verbosity);

}  // namespace adaact::app
