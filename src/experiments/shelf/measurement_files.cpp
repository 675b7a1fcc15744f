#include "experiments/shelf/measurement_files.h"

#include <adaact/io/safetensors.h>
#include <c10/util/Exception.h>

#include "experiments/shelf/run_key.h"
#include "io/atomic_file.h"
#include "io/error_text.h"
#include "io/file_descriptor.h"
#include "io/json_text.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kSetting[] = "setting.json";
constexpr char kNumbers[] = "measurement.json";
constexpr char kTensors[] = "measurement.safetensors";

template <typename Json>
Json read_json(const fs::path& path) {
  auto value = parse_json<Json>(read_file(path), path.string());
  TORCH_CHECK(value.is_object(), "adaact: ", path.string(), " is damaged: expected a JSON object");
  return value;
}

}  // namespace

bool holds_measurement(const fs::path& folder) { return fs::exists(folder / kSetting); }

std::string key_of_measurement(const fs::path& folder) {
  return read_json<json>(folder / kSetting).dump();
}

Measured read_measurement(const fs::path& folder) {
  Measured measured;
  measured.values = read_json<ordered_json>(folder / kNumbers);
  const auto tensors = folder / kTensors;
  if (fs::exists(tensors)) {
    measured.tensors = TensorFile::read(tensors, TensorFile::Checksum::Required).tensors;
  }
  return measured;
}

std::string problem_with(const Measured& measured, const PlannedMeasurement& planned) {
  for (const auto& name : planned.needed_values) {
    if (!measured.values.contains(name)) {
      return "it lacks '" + name + "', which this version measures too";
    }
  }
  try {
    if (planned.check) planned.check(measured);
  } catch (const std::exception& error) {
    return "it cannot be understood: " + error_text_within_line(error);
  }
  return {};
}

void write_measurement(const fs::path& folder, const PlannedMeasurement& planned,
                       const Measured& measured) {
  fs::create_directories(folder);
  if (!measured.tensors.empty()) {
    TensorFile file;
    for (const auto& [name, tensor] : measured.tensors) {
      file.tensors[name] = tensor.detach().cpu().contiguous();
    }
    file.write(folder / kTensors);
  }
  write_file_atomically(folder / kNumbers, measured.values.dump(2) + "\n");
  // Last: without it the folder holds nothing.
  write_file_atomically(folder / kSetting, json::parse(key_of(planned)).dump(2) + "\n");
}

}  // namespace adaact
