#pragma once

#include <optional>
#include <vector>

#include "report/named_runs.h"
#include "report/page.h"

namespace adaact {

/// A row for each run: what was trained with what, and what came out.
Table summary_table(const std::vector<NamedRun>& runs);

/// Fields of the configurations and options of the optimizers, one in each row: those in which runs
/// differ and those in which they do not. data_dir is left out: data may move.
Table differing_settings(const std::vector<NamedRun>& runs);
Table common_settings(const std::vector<NamedRun>& runs);

}  // namespace adaact
