#include "train/run/checkpoint_store.h"

#include <algorithm>
#include <charconv>

#include <c10/util/Exception.h>

#include "io/file_descriptor.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

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
  // "-5" and "007" are no names that save() gives.
  if (step < 0 || std::to_string(step) != std::string(begin, end)) return std::nullopt;
  return step;
}

struct Damage {
  fs::path path;
  std::string problem;
};

/// A damaged file under its own name would count as one of the last two, and a file that could not be
/// read once but can be later would not fit what the run has done since.
void put_aside(const std::vector<Damage>& damaged,
               const std::function<void(const std::string&)>& warn) {
  for (const auto& each : damaged) {
    auto aside = each.path;
    aside += ".damaged";
    fs::rename(each.path, aside);
    warn("a checkpoint is damaged and put aside as " + aside.filename().string() + ": " +
         each.problem);
  }
}

}  // namespace

bool CheckpointStore::is_checkpoint(const std::string& file_name) {
  return step_of(file_name).has_value();
}

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
  keep_newest(kept_);
}

void CheckpointStore::keep_newest(std::int64_t count) const {
  const auto known = steps();
  for (auto i = static_cast<std::size_t>(count); i < known.size(); ++i) {
    fs::remove(path_of(known[i]));
  }
}

std::optional<CheckpointStore::Found> CheckpointStore::find_newest() const {
  for (const auto step : steps()) {
    try {
      TensorFile::read(path_of(step), TensorFile::Checksum::Required);
      return Found{step, path_of(step)};
    } catch (const c10::Error&) {
      continue;  // damaged, or gone since the folder was read
    }
  }
  return std::nullopt;
}

std::optional<CheckpointStore::Loaded> CheckpointStore::load_newest(
    const std::function<void(const std::string&)>& warn) const {
  const auto known = steps();
  std::vector<Damage> damaged;
  for (const auto step : known) {
    const auto path = path_of(step);
    open_regular_file(path);  // one that cannot be opened may be whole: an error, and left as it is
    try {
      Loaded loaded{step, path.string(), TensorFile::read(path, TensorFile::Checksum::Required)};
      put_aside(damaged, warn);
      return loaded;
    } catch (const c10::Error& error) {
      damaged.push_back({path, error.what_without_backtrace()});
    }
  }
  std::string problems;
  for (const auto& each : damaged) problems += "\n  " + each.problem;
  TORCH_CHECK(known.empty(), "adaact: no checkpoint in ", folder_.string(), " is whole:", problems);
  return std::nullopt;
}

}  // namespace adaact
