#pragma once

#include <adaact/train/run_config.h>
#include <nlohmann/json.hpp>

namespace adaact {

/// All fields of a configuration in one form, whichever version wrote it: options of the optimizer
/// completed, and 1 the same as 1.0. Two configurations that agree in a field have equal JSON for it.
/// Needs neither the device nor the data of the run, which RunConfig::resolve() would ask for.
nlohmann::json canonical_fields(const RunConfig& config);

}  // namespace adaact
