#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
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
  /// Leaves the file to the caller, open.
  int release() noexcept;

  /// Reads as many bytes, or what there is up to the end of the file. Returns how many.
  std::size_t read(char* to, std::size_t bytes, const std::filesystem::path& name) const;
  /// Writes all of the bytes.
  void write(std::string_view bytes, const std::filesystem::path& name) const;
  /// Flushes what was written to the disk.
  void flush(const std::filesystem::path& name) const;

 private:
  int number_ = -1;
};

/// Opens a file to read it. Whatever is no regular file, nor a link to one, is an error that says what it
/// is: a pipe or a device may have no end, or nothing to read for ever.
FileDescriptor open_regular_file(const std::filesystem::path& path);

/// Opens a regular file with the flags of ::open(); a file that it makes can be read and written by everybody
/// whom the process allows to.
FileDescriptor open_regular_file(const std::filesystem::path& path, int flags);

/// The size of an open file; an error where it is larger than `most`, before memory is taken for it.
std::size_t size_of_file(const FileDescriptor& file, const std::filesystem::path& name,
                         std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// All bytes of a regular file, which has no more than `most` when it is opened.
std::string read_file(const std::filesystem::path& path,
                      std::int64_t most = std::numeric_limits<std::int64_t>::max());

}  // namespace adaact
