#pragma once

#include <adaact/train/training_run.h>
#include <nlohmann/json_fwd.hpp>

namespace adaact {

/// What config.json says of how a run is carried out.
nlohmann::json to_json(const RunSettings& settings);

/// As the text of a config.json that holds nothing else, for RunSettings::from_json().
std::string settings_text(const RunSettings& settings);

}  // namespace adaact
