#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/shelf/experiment.h"

namespace adaact {

/// Copies what is small of runs that are done and of measurements, each into a folder of its own below
/// `results`: config.json without the place of the data, metrics.jsonl without the records of steps,
/// environment.json. A RunShelf finds them there. A run that was repeated gets a folder with "-2" behind
/// its name, and so on. A measurement that is there already and differs is left as it is; a line for each of
/// those.
std::vector<std::string> keep(const Found& found, const std::filesystem::path& results);

}  // namespace adaact
