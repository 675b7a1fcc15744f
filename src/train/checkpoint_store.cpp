#include "train/checkpoint_store.h"

#include <algorithm>
#include <charconv>

#include <c10/util/Exception.h>

namespace adaact {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKept = 2;
const std::string kPrefix = "checkpoint.";
const std::string kSuffix = ".safetensors";

std::optional<std::int64_t> step_of(const std::string& name) {
  if (name.size() <= kPrefix.size() + kSuffix.size() || name.rfind(kPrefix, 0) != 0 ||
      name.compare(name.size() - kSuffix.size(), kSuffix.size(), kSuffix) != 0) {
    return std::nullopt;
  }
  const auto* begin = name.data() + kPrefix.size();
  const auto* end = name.data() + name.size() - kSuffix.size();
  std::int64_t step = 0;
  const auto [parsed_to, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || parsed_to != end) return std::nullopt;
  return step;
}

}  // namespace

fs::path CheckpointStore::path_of(std::int64_t step) const {
  return folder_ / (kPrefix + std::to_string(step) + kSuffix);
}

std::vector<std::int64_t> CheckpointStore::steps() const {
  std::vector<std::int64_t> found;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (const auto step = step_of(entry.path().filename().string())) found.push_back(*step);
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

void CheckpointStore::save(std::int64_t step, const TensorFile& checkpoint) const {
  checkpoint.write(path_of(step));
  const auto known = steps();
  for (std::size_t i = kKept; i < known.size(); ++i) fs::remove(path_of(known[i]));
}

std::optional<CheckpointStore::Loaded> CheckpointStore::load_newest(
    const std::function<void(const std::string&)>& warn) const {
  const auto known = steps();
  std::string problems;
  for (const auto step : known) {
    try {
      return Loaded{step, path_of(step).string(),
                    TensorFile::read(path_of(step), TensorFile::Checksum::Required)};
    } catch (const c10::Error& error) {
      const std::string problem = error.what_without_backtrace();
      warn("a checkpoint is damaged: " + problem);
      problems += "\n  " + problem;
    }
  }
  TORCH_CHECK(known.empty(), "adaact: no checkpoint in ", folder_, " is whole:", problems);
  return std::nullopt;
}

}  // namespace adaact
