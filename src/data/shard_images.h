#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "data/encoded_images.h"
#include "data/shard_file.h"
#include "data/shard_index.h"

namespace adaact {

/// The images in the shards of a folder. All of them are opened once at the start, so that one that is
/// missing, truncated or longer is an error then; every image is held against its header, and against its
/// checksum where the index has one, when it is read.
class ShardImages : public EncodedImages {
 public:
  ShardImages(std::filesystem::path folder, ShardIndex index);

  bool has_class_names() const override { return index_.has_class_names; }
  std::int64_t size() const override { return index_.size(); }
  std::int64_t label(std::int64_t number) const override {
    return index_.labels[static_cast<std::size_t>(number)];
  }
  /// folder/000000.tar/00000001.jpg
  std::filesystem::path path(std::int64_t number) const override;
  EncodedImage read(std::int64_t number) const override;
  FileStamp stamp(std::int64_t number) const override;

 private:
  /// Opens it where it is not open.
  std::shared_ptr<const ShardFile> shard_file(std::int64_t shard) const;

  std::filesystem::path folder_;
  ShardIndex index_;
  std::vector<std::int64_t> modified_;  // when each shard was

  std::shared_ptr<const ShardFile> opened(std::size_t shard) const;

  // A data set may have more shards than a process may have files open.
  std::size_t most_open_;
  mutable std::mutex mutex_;  // of what follows; not held while files are opened and closed
  mutable std::vector<std::shared_ptr<const ShardFile>> open_;  // by shard; null where it is not
  mutable std::vector<std::size_t> ring_;                       // which ones are open
  mutable std::size_t next_to_close_ = 0;                       // in ring_
};

std::shared_ptr<const EncodedImages> open_shards(const std::filesystem::path& folder);
std::vector<std::string> class_names_of_shards(const std::filesystem::path& folder);

}  // namespace adaact
