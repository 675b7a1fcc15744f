#include "io/file_descriptor.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <unistd.h>

#include <c10/util/Exception.h>

namespace adaact {

FileDescriptor::~FileDescriptor() {
  if (is_open()) ::close(number_);
}

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : number_(std::exchange(other.number_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
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

}  // namespace adaact
