#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace adaact {

/// What a result may owe to the machine: versions, processor, GPU.
nlohmann::ordered_json describe_environment(const std::string& device);

/// What was described each time that the run in a folder was begun or gone on with: an array, empty where
/// the folder does not tell.
nlohmann::ordered_json environments_in(const std::filesystem::path& folder);

}  // namespace adaact
