#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <adaact/train/training_run.h>

#include "output.h"

namespace adaact::app {

/// `adaact train --seeds`: a run for each in folders below `out`, and their mean at the end. Returns the
/// exit code.
int train_seeds(RunConfig config, const std::vector<std::uint64_t>& seeds, const std::string& out,
                const RunSettings& settings, Verbosity verbosity);

}  // namespace adaact::app
