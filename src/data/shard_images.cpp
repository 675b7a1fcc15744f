#include "data/shard_images.h"

#include <algorithm>
#include <utility>

#include <sys/resource.h>
#include <zlib.h>

namespace adaact {
namespace {

namespace fs = std::filesystem;

ShardIndex index_of(const fs::path& folder) {
  auto index = has_shard_index(folder) ? read_shard_index(folder) : scan_shards(folder);
  leave_out_what_is_no_shard(folder, index.left_out);
  return index;
}

/// Of the files that a process may have open a quarter: up to three such folders are read at once, and other
/// files too.
std::size_t most_shards_open() {
  constexpr rlim_t kUsual = 1024;
  constexpr rlim_t kMost = 1 << 16;
  rlimit files{};
  const rlim_t limit = ::getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : kUsual;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit / 4, 1, kMost));
}

}  // namespace

std::int64_t checksum_of_image(const std::vector<std::uint8_t>& bytes) {
  return static_cast<std::int64_t>(::crc32_z(0, bytes.data(), bytes.size()));
}

ShardImages::ShardImages(fs::path folder, ShardIndex index)
    : EncodedImages(index.classes, index.left_out),
      folder_(std::move(folder)),
      index_(std::move(index)),
      most_open_(most_shards_open()),
      open_(index_.shards.size()) {
  for (std::size_t shard = 0; shard < index_.shards.size(); ++shard) {
    modified_.push_back(shard_file(static_cast<std::int64_t>(shard))->modified());
  }
}

fs::path ShardImages::path(std::int64_t number) const {
  const fs::path name(index_.names[number]);
  return folder_ / index_.shards[static_cast<std::size_t>(index_.shard_of(number))] /
         name.relative_path();  // or a name that begins with '/' would take the place of all before it
}

EncodedImage ShardImages::read(std::int64_t number) const {
  const auto at = static_cast<std::size_t>(number);
  const auto file = shard_file(index_.shard_of(number));
  const std::string name(index_.names[number]);
  const auto offset = index_.offsets[at];
  EncodedImage image{path(number),
                     std::vector<std::uint8_t>(static_cast<std::size_t>(index_.bytes[at]))};
  TarBlock header;
  file->read_entry(offset, header, reinterpret_cast<char*>(image.bytes.data()), index_.bytes[at],
                   name);
  const auto entry = file->parse(header, offset);
  if (entry.name != name || entry.bytes != index_.bytes[at]) {
    file->fail(offset, entry.name + " of " + std::to_string(entry.bytes) +
                           " bytes is there, expected " + name + " of " +
                           std::to_string(index_.bytes[at]) + "; the shard has changed");
  }
  if (!index_.checksums.empty() && checksum_of_image(image.bytes) != index_.checksums[at]) {
    file->fail(offset + kTarBlock, name + " has changed since it was packed: its checksum is " +
                                       std::to_string(checksum_of_image(image.bytes)) +
                                       ", expected " + std::to_string(index_.checksums[at]));
  }
  TORCH_CHECK(!image.bytes.empty(), "adaact: ", image.path.string(), " is empty");
  return image;
}

FileStamp ShardImages::stamp(std::int64_t number) const {
  return {index_.bytes[static_cast<std::size_t>(number)],
          modified_[static_cast<std::size_t>(index_.shard_of(number))]};
}

std::shared_ptr<const ShardFile> ShardImages::shard_file(std::int64_t shard) const {
  const auto at = static_cast<std::size_t>(shard);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (open_[at] != nullptr) return open_[at];
  }
  const auto file = opened(at);
  std::shared_ptr<const ShardFile> to_close;  // outlives the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  if (open_[at] != nullptr) return open_[at];  // another thread was faster
  open_[at] = file;
  if (ring_.size() < most_open_) {
    ring_.push_back(at);
  } else {
    to_close = std::exchange(open_[std::exchange(ring_[next_to_close_], at)], nullptr);
    next_to_close_ = (next_to_close_ + 1) % most_open_;
  }
  return file;
}

std::shared_ptr<const ShardFile> ShardImages::opened(std::size_t shard) const {
  const auto file = std::make_shared<const ShardFile>(folder_ / index_.shards[shard]);
  const auto expected = index_.shard_bytes[shard];
  file->check_room(0, expected, "its last image");
  if (file->bytes() > expected) {
    file->fail(expected,
               "the shard should end here, and has " + std::to_string(file->bytes()) + " bytes");
  }
  return file;
}

std::shared_ptr<const EncodedImages> open_shards(const fs::path& folder) {
  return std::make_shared<ShardImages>(folder, index_of(folder));
}

std::vector<std::string> class_names_of_shards(const fs::path& folder) {
  if (!has_shard_index(folder)) {
    if (auto named = classes_in_file(folder); !named.empty()) return named;
  }
  return index_of(folder).classes;
}

}  // namespace adaact
