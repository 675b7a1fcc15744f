#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <adaact/io/safetensors.h>

namespace adaact {

/// Checkpoints of a run, `checkpoint.<step>.safetensors` in its folder. A new one is complete on the
/// disk before an old one goes.
class CheckpointStore {
 public:
  /// `kept`: how many save() leaves, two at least.
  explicit CheckpointStore(std::filesystem::path folder, std::int64_t kept = 2)
      : folder_(std::move(folder)), kept_(std::max<std::int64_t>(2, kept)) {}

  void save(std::int64_t step, const TensorFile& checkpoint) const;
  /// Removes all but the newest so many.
  void keep_newest(std::int64_t count) const;

  static bool is_checkpoint(const std::string& file_name);
  bool has_any() const { return !steps().empty(); }

  struct Loaded {
    std::int64_t step = 0;
    std::string source;  // for error messages
    TensorFile checkpoint;
  };
  /// The newest that is whole. Newer ones that are damaged are put aside under another name, and `warn`
  /// is told. Nothing where there is none at all; an error where there are some and none is whole.
  std::optional<Loaded> load_newest(const std::function<void(const std::string&)>& warn) const;

  struct Found {
    std::int64_t step = 0;
    std::filesystem::path path;
  };
  /// The newest that is whole, of a run that may be training: nothing in the folder is changed. Nothing
  /// where none is.
  std::optional<Found> find_newest() const;

 private:
  std::filesystem::path path_of(std::int64_t step) const;
  std::vector<std::int64_t> steps() const;  // newest first

  std::filesystem::path folder_;
  std::int64_t kept_;
};

}  // namespace adaact
