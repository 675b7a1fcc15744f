#include "report/find_runs.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include <c10/util/Exception.h>

#include "train/run/run_file_names.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

bool is_digit(char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; }

/// The number that a text begins with, without leading zeros; it is taken off the text.
std::string_view take_number(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  auto number = text.substr(0, length);
  text.remove_prefix(length);
  while (number.size() > 1 && number.front() == '0') number.remove_prefix(1);
  return number;
}

/// Letter by letter, but numbers by their value: "seed-9" before "seed-10".
bool comes_before(const fs::path& left_path, const fs::path& right_path) {
  std::string_view left = left_path.native();
  std::string_view right = right_path.native();
  while (!left.empty() && !right.empty()) {
    if (is_digit(left.front()) && is_digit(right.front())) {
      const auto one = take_number(left);
      const auto other = take_number(right);
      if (one.size() != other.size()) return one.size() < other.size();
      if (one != other) return one < other;
    } else {
      if (left.front() != right.front()) return left.front() < right.front();
      left.remove_prefix(1);
      right.remove_prefix(1);
    }
  }
  return left.empty() && !right.empty();
}

/// Others write a config.json too. A run has one of the other files as soon as it has begun.
bool looks_like_a_run(const fs::path& folder) {
  std::error_code unknown;
  return fs::exists(folder / kConfigFile, unknown) &&
         (fs::exists(folder / kMetricsFile, unknown) ||
          fs::exists(folder / kEnvironmentFile, unknown));
}

/// Links are not followed, because they may lead in a circle, and what cannot be read is passed over.
void look_below(const fs::path& folder, int depth, std::vector<fs::path>& found) {
  std::vector<fs::path> folders;
  std::error_code unreadable;
  for (fs::directory_iterator entry(folder, unreadable), end; !unreadable && entry != end;
       entry.increment(unreadable)) {
    const bool is_hidden = entry->path().filename().native().front() == '.';
    std::error_code unknown;
    if (!is_hidden && entry->is_directory(unknown) && !entry->is_symlink(unknown)) {
      folders.push_back(entry->path());
    }
  }
  std::sort(folders.begin(), folders.end(), comes_before);
  for (const auto& each : folders) {
    if (looks_like_a_run(each)) {
      found.push_back(each);
    } else if (depth > 1) {
      look_below(each, depth - 1, found);
    }
  }
}

std::vector<fs::path> runs_of(const fs::path& folder, Absence absence) {
  std::error_code unknown;
  TORCH_CHECK(fs::exists(folder, unknown), "adaact: ", folder.string(),
              " is no run: there is no such folder");
  TORCH_CHECK(fs::is_directory(folder, unknown), "adaact: ", folder.string(),
              " is no run: it is a file; name the folder of the run");
  if (fs::exists(folder / kConfigFile, unknown)) return {folder};
  std::vector<fs::path> found;
  look_below(folder, kDeepestSearch, found);
  TORCH_CHECK(!found.empty() || absence == Absence::IsFine, "adaact: ", folder.string(),
              " is no run: there is no config.json in it, and no run below it");
  return found;
}

}  // namespace

std::vector<fs::path> find_runs(const std::vector<fs::path>& folders, Absence absence) {
  std::vector<fs::path> runs;
  std::set<fs::path> known;
  for (const auto& folder : folders) {
    for (auto& run : runs_of(folder, absence)) {
      std::error_code unknown;
      auto place = fs::canonical(run, unknown);
      if (known.insert(unknown ? fs::absolute(run) : place).second) runs.push_back(std::move(run));
    }
  }
  return runs;
}

}  // namespace adaact
