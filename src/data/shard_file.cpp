#include "data/shard_file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/stat.h>
#include <sys/uio.h>

#include <c10/util/Exception.h>

#include "data/encoded_images.h"
#include "data/file_times.h"
#include "io/error_text.h"

namespace adaact {
namespace {

[[noreturn]] void throw_shard_error(const std::string& message) {
  throw ShardError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, message);
}

FileDescriptor open_shard(const std::filesystem::path& path) {
  try {
    return open_regular_file(path);
  } catch (const c10::Error& error) {
    throw_shard_error(error_text(error));
  }
}

}  // namespace

ShardFile::ShardFile(std::filesystem::path path)
    : path_(std::move(path)), file_(open_shard(path_)) {
  struct stat status {};
  if (::fstat(file_.number(), &status) != 0) fail(0, std::strerror(errno));
  bytes_ = static_cast<std::int64_t>(status.st_size);
  modified_ = nanoseconds(status.st_mtim);
}

void ShardFile::fail(std::int64_t offset, const std::string& problem) const {
  throw_shard_error("adaact: " + path_.string() + ": at byte " + std::to_string(offset) + ": " +
                    problem);
}

void ShardFile::check_room(std::int64_t offset, std::int64_t count, const std::string& what) const {
  if (count <= bytes_ - offset) return;
  throw_shard_error("adaact: " + path_.string() + " is truncated: " + what + " ends at byte " +
                    std::to_string(offset + count) + ", the file at byte " +
                    std::to_string(bytes_));
}

void ShardFile::read(std::int64_t offset, char* to, std::int64_t count,
                     const std::string& what) const {
  check_room(offset, count, what);
  while (count > 0) {
    const auto done = ::pread(file_.number(), to, static_cast<std::size_t>(count), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(offset, std::strerror(errno));
    if (done == 0) fail(offset, "the file ends here now, within " + what);
    offset += done;
    to += done;
    count -= done;
  }
}

void ShardFile::read_entry(std::int64_t offset, TarBlock& header, char* to, std::int64_t count,
                           const std::string& what) const {
  check_room(offset, kTarBlock + count, what);
  const std::array<iovec, 2> parts{iovec{header.data(), header.size()},
                                   iovec{to, static_cast<std::size_t>(count)}};
  const auto done = ::preadv(file_.number(), parts.data(), 2, offset);
  if (done == kTarBlock + count) return;
  // Rare: a signal came between, or the file has changed.
  read(offset, header.data(), kTarBlock, what);
  read(offset + kTarBlock, to, count, what);
}

TarEntry ShardFile::parse(const TarBlock& block, std::int64_t offset) const {
  try {
    return parse_tar_header(block);
  } catch (const c10::Error& error) {
    fail(offset, "no header of a file: " + error_text(error));
  }
}

}  // namespace adaact
