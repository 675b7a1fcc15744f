#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/tar_archive.h"
#include "io/file_descriptor.h"

namespace adaact {

/// An open shard. Errors are ShardErrors that name it and the byte. All methods may be called from several threads.
class ShardFile {
 public:
  explicit ShardFile(std::filesystem::path path);

  std::int64_t bytes() const { return bytes_; }
  std::int64_t modified() const { return modified_; }  // in nanoseconds since 1970
  const std::filesystem::path& path() const { return path_; }

  /// Reads at an offset; where the shard ends before that, it is truncated. `what` is there.
  void read(std::int64_t offset, char* to, std::int64_t count, const std::string& what) const;
  /// A header block and what follows it, in one go.
  void read_entry(std::int64_t offset, TarBlock& header, char* to, std::int64_t count,
                  const std::string& what) const;
  /// The header at an offset.
  TarEntry parse(const TarBlock& block, std::int64_t offset) const;
  void check_room(std::int64_t offset, std::int64_t count, const std::string& what) const;

  [[noreturn]] void fail(std::int64_t offset, const std::string& problem) const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  std::int64_t bytes_ = 0;
  std::int64_t modified_ = 0;
};

}  // namespace adaact
