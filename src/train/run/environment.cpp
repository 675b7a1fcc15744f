#include "train/run/environment.h"

#include <ctime>
#include <fstream>

#include <sys/utsname.h>

#include <torch/types.h>
#include <torch/version.h>
#ifdef ADAACT_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif
#include <nlohmann/json.hpp>

namespace adaact {
namespace {

/// As Linux tells it, or the kind of machine where it does not.
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
#ifdef ADAACT_WITH_CUDA
  const torch::Device used(device);
  if (used.is_cuda()) {
    const auto* gpu = at::cuda::getDeviceProperties(used.has_index() ? used.index() : 0);
    environment["gpu"] = gpu->name;
    environment["cuda"] =
        std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
  }
#else
  (void)device;
#endif
  return environment;
}

}  // namespace adaact
