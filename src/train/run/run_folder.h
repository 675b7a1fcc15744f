#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <adaact/train/run_config.h>
#include <adaact/train/training_run.h>

#include "io/file_descriptor.h"

namespace adaact {

/// Whether a run may begin in a folder: it does not exist, or holds nothing but what a process left that
/// was killed while it wrote the first file.
bool is_unused(const std::filesystem::path& folder);

/// The folder of one run, held against other processes while this lives.
class RunFolder {
 public:
  /// Makes the folder with its config.json. One that is in use already is an error unless `settings`
  /// resume; then it must hold a run that can go on with this configuration, or nothing yet. What a killed
  /// process left half written is removed.
  RunFolder(std::filesystem::path path, const RunConfig& config, const RunSettings& settings);

  const std::filesystem::path& path() const noexcept { return path_; }

  /// What config.json said of a run that was there already.
  const std::optional<RunConfig>& begun_as() const noexcept { return begun_as_; }

  /// Brings config.json up to date where a run goes on in another way than it began. The model of one
  /// that was finished, after `epochs` of them, is set aside first: killed in between, the run is what it
  /// was, and only its model is to be written again.
  void go_on_as(const RunConfig& config, const RunSettings& settings, std::int64_t epochs) const;

  /// Notes the versions and the machine that go on with the run.
  void add_environment(const std::string& device) const;

  /// The result, which is written last.
  std::filesystem::path model_file() const;
  bool finished() const { return std::filesystem::exists(model_file()); }
  /// The model of the best epoch.
  std::filesystem::path best_file() const;

 private:
  void lock();
  void remove_leftovers() const;

  std::filesystem::path path_;
  FileDescriptor folder_;  // locked
  std::optional<RunConfig> begun_as_;
};

}  // namespace adaact
