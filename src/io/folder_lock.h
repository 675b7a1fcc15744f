#pragma once

#include <filesystem>

#include "io/file_descriptor.h"

namespace adaact {

/// Holds a folder against other processes for as long as what is returned lives. Where another one holds
/// it: "another process is <doing> <folder>".
FileDescriptor lock_folder(const std::filesystem::path& folder, const char* doing);

}  // namespace adaact
