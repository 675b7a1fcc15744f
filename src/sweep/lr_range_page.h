#pragma once

#include <filesystem>

#include <adaact/report/report.h>
#include <adaact/train/lr_range_test.h>
#include <adaact/train/run_config.h>

namespace adaact {

/// Writes a page with the curve of a range test and what it suggests.
void write_lr_range_page(const RunConfig& config, const LrRangeResult& found,
                         const std::filesystem::path& path, const ReportOptions& options);

}  // namespace adaact
