#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "io/file_descriptor.h"

namespace adaact {

/// A file that only grows, and that a resumed run cuts back to where its checkpoint was taken: then
/// nothing is in it twice.
class AppendLog {
 public:
  /// Opens the file, made if absent, and cuts it to `size` bytes. A shorter file is an error: what
  /// the checkpoint counts on is gone.
  AppendLog(const std::filesystem::path& path, std::int64_t size);

  void append(std::string_view bytes);
  /// Brings what was appended to the disk, before a checkpoint says that it is there.
  void flush();
  std::int64_t size() const noexcept { return size_; }

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  std::int64_t size_ = 0;
};

}  // namespace adaact
