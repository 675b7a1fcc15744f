#pragma once

// A listing outlives the program: a walk over a million files takes longer than all else at the start.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "data/image_listing.h"

namespace adaact {

/// Folders with fewer images are listed each time: that takes a few hundredths of a second.
inline constexpr std::int64_t kLeastRemembered = 10'000;

/// list_folder(), or what an earlier call has found where the folder is as it was then. It is told by the times
/// of change of all folders in it, which change with every name that comes or goes. Where nothing can be kept,
/// or what is kept is damaged, the folder is listed.
FolderListing remembered_listing(const std::filesystem::path& folder,
                                 const std::filesystem::path& root);

/// The two parts of remembered_listing(). This one keeps a listing in a file, unless a folder has changed within the
/// last `unsettled` nanoseconds: the clock of a file system may not tell that change from the next one.
void remember_listing(const FolderListing& listing, const std::filesystem::path& file,
                      const std::filesystem::path& root, std::int64_t unsettled = 2'000'000'000);
/// The listing that a file keeps, or nothing where the folder has changed since; an error where the file keeps no
/// listing.
std::optional<FolderListing> recall_listing(const std::filesystem::path& file,
                                            const std::filesystem::path& folder,
                                            const std::filesystem::path& root);

}  // namespace adaact
