#include "report/named_runs.h"

#include <map>

#include <c10/util/Exception.h>

#include "report/find_runs.h"
#include "train/run/run_file_names.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

/// The last `count` parts of a path; all of it where it has no more.
std::string last_parts(const fs::path& path, std::size_t count) {
  auto part = path.end();
  for (std::size_t taken = 0; taken < count && part != path.begin(); ++taken) --part;
  fs::path parts;
  for (; part != path.end(); ++part) parts /= *part;
  return parts.string();
}

}  // namespace

fs::path full_path(const fs::path& folder) {
  const auto path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

std::vector<std::string> distinct_names(const std::vector<fs::path>& paths) {
  std::vector<std::size_t> counts(paths.size(), 1);
  std::vector<std::string> names(paths.size());
  // Paths differ, so names do once they are whole paths.
  for (bool ambiguous = true; ambiguous;) {
    std::map<std::string, int> uses;
    for (std::size_t index = 0; index < paths.size(); ++index) {
      names[index] = last_parts(paths[index], counts[index]);
      ++uses[names[index]];
    }
    ambiguous = false;
    for (std::size_t index = 0; index < paths.size(); ++index) {
      if (uses[names[index]] == 1) continue;
      ++counts[index];
      ambiguous = true;
    }
  }
  return names;
}

NamedRun read_run(const fs::path& folder) {
  return {"", RunHistory::read(folder), read_test_details(folder / kTestDetailsFile)};
}

void name_by_folders(std::vector<NamedRun>& runs) {
  std::vector<fs::path> paths;
  paths.reserve(runs.size());
  for (const auto& run : runs) paths.push_back(full_path(run.history.folder));
  const auto names = distinct_names(paths);
  for (std::size_t index = 0; index < runs.size(); ++index) runs[index].name = names[index];
}

std::vector<NamedRun> read_runs(const std::vector<fs::path>& folders) {
  TORCH_CHECK(!folders.empty(), "adaact: there are no runs to report on; name at least one folder");
  std::vector<NamedRun> runs;
  for (const auto& folder : find_runs(folders)) runs.push_back(read_run(folder));
  name_by_folders(runs);
  return runs;
}

}  // namespace adaact
