#pragma once

#include <filesystem>
#include <string_view>

namespace adaact {

/// An open file, or none; closed with this object. Errors name the file as the caller calls it.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  /// Takes over what ::open() returned.
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  bool is_open() const noexcept { return number_ >= 0; }
  int number() const noexcept { return number_; }

  /// Writes all of the bytes.
  void write(std::string_view bytes, const std::filesystem::path& name) const;
  /// Flushes what was written to the disk.
  void flush(const std::filesystem::path& name) const;

 private:
  int number_ = -1;
};

}  // namespace adaact
