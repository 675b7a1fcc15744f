#pragma once

// Where things are in the folder of a run.

#include <filesystem>
#include <string>

#include <c10/util/Exception.h>

#include "commands.h"
#include "train/run/checkpoint_store.h"
#include "train/run/run_file_names.h"

namespace adaact::app {

inline std::filesystem::path config_of_run(const std::string& run) {
  return std::filesystem::path(run) / kConfigFile;
}

inline std::filesystem::path model_of_run(const std::string& run) {
  return std::filesystem::path(run) / kModelFile;
}

inline void check_run(const std::string& run) {
  TORCH_CHECK(std::filesystem::exists(config_of_run(run)), run,
              " is no run: there is no config.json in it; expected the folder of a run");
}

/// The weights of a run: of one that is not finished those of its newest checkpoint, which a notice says.
/// An error where the folder holds no run, or one that has no weights yet.
inline std::filesystem::path weights_of_run(const std::string& run) {
  auto weights = model_of_run(run);
  if (std::filesystem::exists(weights)) return weights;
  check_run(run);
  const auto checkpoint = CheckpointStore(run).find_newest();
  TORCH_CHECK(checkpoint, run, " is not finished and has no checkpoint yet; `adaact train --out ",
              run, " --resume` goes on with it");
  print_notice(run + " is not finished: its weights are those after step " +
               std::to_string(checkpoint->step));
  return checkpoint->path;
}

/// The weights of the best epoch of a run that was to keep them.
inline std::filesystem::path best_weights_of_run(const std::string& run) {
  auto weights = std::filesystem::path(run) / kBestFile;
  if (std::filesystem::exists(weights)) return weights;
  check_run(run);
  TORCH_CHECK(false, run, " has no ", kBestFile, ": `adaact train --save-best` keeps it");
}

}  // namespace adaact::app
