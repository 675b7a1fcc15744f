#pragma once

#include <adaact/train/training_run.h>
#include <nlohmann/json_fwd.hpp>

namespace adaact {

/// What config.json says of how a run is carried out.
nlohmann::json to_json(const RunSettings& settings);

}  // namespace adaact
