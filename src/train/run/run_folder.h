#pragma once

#include <filesystem>
#include <string>

#include <adaact/train/run_config.h>

#include "io/file_descriptor.h"

namespace adaact {

/// The folder of one run, held against other processes while this lives.
class RunFolder {
 public:
  /// Makes the folder with its config.json. One that exists already is an error unless `resume`; then
  /// it must hold a run of the same configuration, or nothing yet. What a killed process left half
  /// written is removed.
  RunFolder(std::filesystem::path path, const RunConfig& config, bool resume);

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Notes the versions and the machine that go on with the run.
  void add_environment(const std::string& device) const;

  /// The result, which is written last.
  std::filesystem::path model_file() const;
  bool finished() const { return std::filesystem::exists(model_file()); }

 private:
  void lock();
  void remove_leftovers() const;

  std::filesystem::path path_;
  FileDescriptor folder_;  // locked
};

}  // namespace adaact
