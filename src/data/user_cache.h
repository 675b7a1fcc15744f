#pragma once

#include <filesystem>

namespace adaact {

/// What is found out about data at some cost is kept in $XDG_CACHE_HOME/adaact, or else ~/.cache/adaact: never
/// in the folder of the data, which may be read-only, or other people's. Empty where there is no such place.
std::filesystem::path user_cache();

/// The place in it for what is known of a folder; empty likewise.
std::filesystem::path cached_file(const std::filesystem::path& folder, const char* ending);

}  // namespace adaact
