#pragma once

#include <cstdint>
#include <filesystem>

#include <zlib.h>

namespace adaact {

/// A file read from front to back, unpacked on the way if it is gzip. Errors name it and the byte
/// (of the unpacked content) where something else was expected.
class RecordFile {
 public:
  explicit RecordFile(std::filesystem::path path);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  /// `what` says in the error what the file ends in the middle of.
  void read(std::uint8_t* to, std::int64_t bytes, const char* what);

  /// Reads a big-endian number, as headers have them.
  std::uint32_t read_uint32(const char* what);

  /// An error if anything follows, or if the checksum of a gzip file is wrong.
  void expect_end();

  /// An error if the rest of the file cannot hold so many bytes. Asked before memory is reserved
  /// for what a header announces.
  void expect_room_for(std::int64_t bytes) const;

  const std::filesystem::path& path() const { return path_; }
  std::int64_t offset() const { return offset_; }

 private:
  std::int64_t read_some(std::uint8_t* to, std::int64_t bytes);

  std::filesystem::path path_;
  gzFile file_;
  std::int64_t offset_ = 0;
};

}  // namespace adaact
