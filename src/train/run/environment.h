#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace adaact {

/// What a result may owe to the machine: versions, processor, GPU.
nlohmann::ordered_json describe_environment(const std::string& device);

}  // namespace adaact
