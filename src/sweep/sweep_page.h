#pragma once

#include <filesystem>
#include <vector>

#include <adaact/report/report.h>

#include "sweep/trial_result.h"

namespace adaact {

/// Writes a page on a sweep: the best trial of each optimizer, accuracy against learning rate, all trials,
/// and the curves of those that were trained to the end.
void write_sweep_page(const std::vector<TrialResult>& trials, const std::filesystem::path& path,
                      const ReportOptions& options);

}  // namespace adaact
