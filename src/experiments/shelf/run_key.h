#pragma once

#include <filesystem>
#include <string>

#include <adaact/train/run_config.h>

#include "experiments/shelf/experiment.h"

namespace adaact {

/// What a run computes, as JSON in one canonical form: two runs with the same key are the same run for
/// an experiment, whatever machine they ran on. Needs neither the device nor the data of the run.
std::string key_of(const RunConfig& config);
/// The same of all runs that differ in their seeds alone.
std::string key_of_any_seed(RunConfig config);

/// What a measurement computes, in the same form: its series, its setting and the run that it is
/// of.
std::string key_of(const PlannedMeasurement& measurement);

// Names of folders that a person can read and that differ where keys do.

/// "cifar10-resnet20-adaact-seed0-1a2b3c4d", with "-variances" behind it where they are measured: that
/// is another folder, because the same run without them will not do.
std::string folder_name(const PlannedRun& run);
/// Where results keep such a run: "cifar10/resnet20/adaact/seed0-1a2b3c4d", with "-variances" too.
std::filesystem::path kept_path(const PlannedRun& run);
/// The series and a hash of the key: "p-0-25-1a2b3c4d".
std::string folder_name(const PlannedMeasurement& measurement);

}  // namespace adaact
