#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/encoded_images.h"
#include "data/shard_index.h"
#include "io/file_descriptor.h"

namespace adaact {

/// Whether a file is called as one that a ShardWriter leaves where it is killed: a shard, the index or the index while
/// it is written.
bool is_written_with_shards(const std::string& name);

/// Writes images into shards of a folder: 000000.tar, 000001.tar, …
class ShardWriter {
 public:
  /// The classes are called as those of the images that come from there.
  ShardWriter(std::filesystem::path folder, const EncodedImages& from, std::int64_t shard_bytes);

  void add(const EncodedImage& image, std::int64_t label);
  /// After the last image: writes the index too. Everything is on the disk then.
  const ShardIndex& finish();

 private:
  void begin_shard();
  void end_shard();
  void write(std::string_view bytes);
  void write_entry(const std::string& name, std::string_view content);

  std::filesystem::path folder_;
  std::int64_t shard_bytes_;
  ShardIndex index_;
  std::filesystem::path path_;  // of the shard that is being written
  FileDescriptor file_;
  std::int64_t written_ = 0;  // to it
};

}  // namespace adaact
