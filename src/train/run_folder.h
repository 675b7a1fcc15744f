#pragma once

#include <filesystem>

#include <adaact/train/run_config.h>

namespace adaact {

/// The folder of one run, held against other processes while this lives.
class RunFolder {
 public:
  /// Makes the folder with its config.json. One that exists already is an error unless `resume`; then
  /// it must hold a run of the same configuration, or nothing yet.
  RunFolder(std::filesystem::path path, const RunConfig& config, bool resume);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

  /// The result, which is written last.
  std::filesystem::path model_file() const { return path_ / "model.safetensors"; }
  bool finished() const { return std::filesystem::exists(model_file()); }

 private:
  void lock();
  void remove_leftovers() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace adaact
