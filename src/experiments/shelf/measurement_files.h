#pragma once

#include <filesystem>
#include <string>

#include "experiments/shelf/experiment.h"

namespace adaact {

// A measurement in a folder of its own:
//
//   setting.json             its key
//   measurement.json         numbers
//   measurement.safetensors  tensors, where it has any

bool holds_measurement(const std::filesystem::path& folder);

/// An error where setting.json cannot be understood.
std::string key_of_measurement(const std::filesystem::path& folder);

/// A damaged file is an error that names it.
Measured read_measurement(const std::filesystem::path& folder);

/// Why a measurement that was kept cannot be drawn: it lacks a needed value, or has something else than was
/// measured. Empty where it can be.
std::string problem_with(const Measured& measured, const PlannedMeasurement& planned);

/// Whatever happens on the way, the folder holds the whole measurement or none. The bytes depend on what
/// was measured alone.
void write_measurement(const std::filesystem::path& folder, const PlannedMeasurement& planned,
                       const Measured& measured);

}  // namespace adaact
