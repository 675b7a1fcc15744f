#include "train/append_log.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <c10/util/Exception.h>

namespace adaact {

AppendLog::AppendLog(const std::filesystem::path& path, std::int64_t size)
    : path_(path),
      descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)),
      size_(size) {
  TORCH_CHECK(descriptor_ >= 0, "adaact: cannot write ", path_, ": ", std::strerror(errno));
  struct stat status {};
  TORCH_CHECK(::fstat(descriptor_, &status) == 0, "adaact: cannot read ", path_, ": ",
              std::strerror(errno));
  TORCH_CHECK(status.st_size >= size, "adaact: ", path_, " has ", status.st_size,
              " bytes, but the checkpoint was taken when it had ", size);
  TORCH_CHECK(::ftruncate(descriptor_, size) == 0, "adaact: cannot shorten ", path_, ": ",
              std::strerror(errno));
}

AppendLog::~AppendLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendLog::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    TORCH_CHECK(written > 0, "adaact: cannot write ", path_, ": ", std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(written));
    size_ += written;
  }
}

void AppendLog::flush() {
  TORCH_CHECK(::fsync(descriptor_) == 0, "adaact: cannot flush ", path_, ": ",
              std::strerror(errno));
}

}  // namespace adaact
