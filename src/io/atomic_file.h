#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace adaact {

/// Writes beside the file, flushes to the disk and renames over it. Whatever happens on the way, the
/// path holds either all of the old bytes or all of the new.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// If this is what a process that was killed in write_file_atomically() left: the name of the file that
/// it was to become.
std::optional<std::string> unfinished_file(const std::filesystem::path& path);

}  // namespace adaact
