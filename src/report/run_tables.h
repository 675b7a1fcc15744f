#pragma once

#include <vector>

#include "report/group_summary.h"
#include "report/page.h"
#include "report/run_groups.h"

namespace adaact {

/// A row for each group of runs: what came out, right after its name so that a phone shows it, and what
/// was trained with what.
Table summary_table(const std::vector<GroupSummary>& summaries);

/// Fields of the configurations and options of the optimizers, one in each row: those in which runs
/// differ and those in which they do not.
Table differing_settings(const std::vector<RunGroup>& groups);
Table common_settings(const std::vector<RunGroup>& groups);

}  // namespace adaact
