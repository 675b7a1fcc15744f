#include "train/run/environment.h"

#include <ctime>
#include <fstream>
#include <utility>

#include <sys/utsname.h>

#include <torch/types.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "io/file_descriptor.h"
#include "io/json_text.h"
#include "kernels/gpu.h"
#include "train/run/run_file_names.h"

namespace adaact {
namespace {

/// The name of the processor as Linux tells it, or the kind of machine where it does not.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  const std::string key = "model name";
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.rfind(key, 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname names{};
  return uname(&names) == 0 ? names.machine : "unknown";
}

std::string utc_now() {
  const auto now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

nlohmann::ordered_json describe_environment(const std::string& device) {
  nlohmann::ordered_json environment{{"started", utc_now()},
                                     {"adaact", ADAACT_VERSION},
                                     {"libtorch", TORCH_VERSION},
                                     {"compiler", __VERSION__},
                                     {"processor", processor()}};
  const torch::Device used(device);
  if (used.is_cuda()) {
    environment["gpu"] = gpus().at(used.has_index() ? used.index() : 0).name;
    environment["cuda"] = cuda_version();
  }
  return environment;
}

nlohmann::ordered_json environments_in(const std::filesystem::path& folder) {
  using nlohmann::ordered_json;
  const auto file = folder / kEnvironmentFile;
  if (!std::filesystem::exists(file)) return ordered_json::array();
  auto parsed = try_parse_json<ordered_json>(read_file(file));
  return parsed.value.is_array() ? std::move(parsed.value) : ordered_json::array();
}

}  // namespace adaact
