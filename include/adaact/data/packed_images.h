#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace adaact {

struct PackOptions {
  std::filesystem::path from;  // an image folder, with train/ and val/ or test/, or without
  std::filesystem::path to;    // which may not exist
  /// A shard is closed before it would become larger. One of a single image may be.
  std::int64_t shard_bytes = 256'000'000;
  bool skip_bad_images = false;  // leave out what cannot be decoded, with a warning for each
};

/// What was made of a folder of classes, or was found in one of shards.
struct PackedFolder {
  std::string name;  // "train"; empty where there are no splits
  std::int64_t classes = 0;
  std::int64_t images = 0;
  std::int64_t shards = 0;
  std::int64_t bytes = 0;                 // of all shards
  std::vector<std::string> remarks = {};  // which files were left out and why
};

/// Is told how far the work has come; may throw to end it. With skip_bad_images all images of a folder are checked
/// first, and counted from 0 then too.
using PackProgress =
    std::function<void(const std::string& folder, std::int64_t images, std::int64_t of_images)>;

/// Copies images, unchanged, into shards that ImageFolder and WebDataset read: uncompressed tar archives in which
/// 00000001.jpg is an image and 00000001.cls the number of its class. They are in the order of the folder and
/// depend on its content alone. The index beside them has names of classes, places and checksums.
///
/// All of it appears under its name once it is complete; an error leaves nothing.
std::vector<PackedFolder> pack_images(const PackOptions& options, const PackProgress& progress);

/// Reads every byte of shards with an index; an error names the first that is not as it was packed.
std::vector<PackedFolder> verify_packed(const std::filesystem::path& folder,
                                        const PackProgress& progress);

}  // namespace adaact
