#pragma once

#include <filesystem>
#include <vector>

namespace adaact {

/// How many folders deep runs are looked for below one that is no run itself.
inline constexpr int kDeepestSearch = 4;

/// Whether there may be no run below a folder yet, as where one waits for the first.
enum class Absence { IsAnError, IsFine };

/// The folders of runs that are meant by these: a run itself, or all runs below a folder that is none,
/// in the order of their names with 10 after 9. A run that is named twice, or found and named, is there
/// once. What is no folder is an error that names it, and so is a folder without a run.
std::vector<std::filesystem::path> find_runs(const std::vector<std::filesystem::path>& folders,
                                             Absence absence = Absence::IsAnError);

}  // namespace adaact
