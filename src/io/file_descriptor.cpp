#include "io/file_descriptor.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <c10/util/Exception.h>

namespace adaact {
namespace {

const char* kind_of_file(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "no file with content";
}

void check_that_it_is_regular(const struct stat& status, const std::filesystem::path& path) {
  TORCH_CHECK(S_ISREG(status.st_mode), "adaact: ", path.string(), " is ",
              kind_of_file(status.st_mode), ", expected a regular file");
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (is_open()) ::close(number_);
}

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : number_(std::exchange(other.number_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

int FileDescriptor::release() noexcept { return std::exchange(number_, -1); }

std::size_t FileDescriptor::read(char* to, std::size_t bytes,
                                 const std::filesystem::path& name) const {
  std::size_t done = 0;
  while (done < bytes) {
    const auto count = ::read(number_, to + done, bytes - done);
    if (count < 0 && errno == EINTR) continue;
    TORCH_CHECK(count >= 0, "adaact: ", name.string(), " cannot be read at byte ", done, ": ",
                std::strerror(errno));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

void FileDescriptor::write(std::string_view bytes, const std::filesystem::path& name) const {
  while (!bytes.empty()) {
    const auto written = ::write(number_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    TORCH_CHECK(written > 0, "adaact: cannot write ", name.string(), ": ", std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void FileDescriptor::flush(const std::filesystem::path& name) const {
  TORCH_CHECK(::fsync(number_) == 0, "adaact: cannot flush ", name.string(), ": ",
              std::strerror(errno));
}

FileDescriptor open_regular_file(const std::filesystem::path& path, int flags) {
  // Without O_NONBLOCK the opening of a pipe waits for its other end. Of a regular file it changes
  // nothing.
  FileDescriptor file(::open(path.c_str(), flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0666));
  const auto error = errno;
  struct stat status {};
  if (!file.is_open()) {
    if (::stat(path.c_str(), &status) == 0) check_that_it_is_regular(status, path);
    TORCH_CHECK(false, "adaact: ", path.string(), " cannot be opened: ", std::strerror(error));
  }
  TORCH_CHECK(::fstat(file.number(), &status) == 0, "adaact: ", path.string(),
              " cannot be read: ", std::strerror(errno));
  check_that_it_is_regular(status, path);
  return file;
}

FileDescriptor open_regular_file(const std::filesystem::path& path) {
  return open_regular_file(path, O_RDONLY);
}

std::size_t size_of_file(const FileDescriptor& file, const std::filesystem::path& name,
                         std::int64_t most) {
  struct stat status {};
  TORCH_CHECK(::fstat(file.number(), &status) == 0, "adaact: ", name.string(),
              " cannot be read: ", std::strerror(errno));
  const auto bytes = static_cast<std::int64_t>(status.st_size);
  TORCH_CHECK(bytes <= most, "adaact: ", name.string(), " has ", bytes, " bytes, expected at most ",
              most);
  return static_cast<std::size_t>(bytes);
}

std::string read_file(const std::filesystem::path& path, std::int64_t most) {
  const auto file = open_regular_file(path);
  // One byte more than there is tells whether the file has grown meanwhile.
  std::string bytes(size_of_file(file, path, most) + 1, '\0');
  std::size_t done = 0;
  while (true) {
    done += file.read(bytes.data() + done, bytes.size() - done, path);
    if (done < bytes.size()) break;
    bytes.resize(2 * bytes.size());
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace adaact
