#pragma once

// Where things are in the folder of a run.

#include <filesystem>
#include <string>

#include <c10/util/Exception.h>

#include "train/run/run_file_names.h"

namespace adaact::app {

inline std::filesystem::path config_of_run(const std::string& run) {
  return std::filesystem::path(run) / kConfigFile;
}

inline std::filesystem::path model_of_run(const std::string& run) {
  return std::filesystem::path(run) / kModelFile;
}

/// The trained weights of a run; an error where the folder holds no run, or one that is not
/// finished.
inline std::filesystem::path weights_of_run(const std::string& run) {
  auto weights = model_of_run(run);
  if (std::filesystem::exists(weights)) return weights;
  TORCH_CHECK(std::filesystem::exists(config_of_run(run)), run,
              " is no run: there is no config.json in it; expected the folder of a finished run");
  TORCH_CHECK(false, run, " is not finished; `adaact train --resume` goes on with it");
}

}  // namespace adaact::app
