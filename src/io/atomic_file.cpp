#include "io/atomic_file.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <c10/util/Exception.h>

namespace adaact {
namespace {

/// An open temporary file that disappears unless it is renamed to its place.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target) : name_(target.string() + ".XXXXXX") {
    descriptor_ = ::mkstemp(name_.data());
    TORCH_CHECK(descriptor_ >= 0, "adaact: cannot write beside ", target, ": ",
                std::strerror(errno));
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::string_view bytes, const std::filesystem::path& target) {
    while (!bytes.empty()) {
      const auto written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      TORCH_CHECK(written > 0, "adaact: cannot write ", target, ": ", std::strerror(errno));
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void rename_to(const std::filesystem::path& target) {
    // mkstemp makes the file private; a result should be as readable as any other file.
    const auto mask = ::umask(0);
    ::umask(mask);
    const bool flushed = ::fchmod(descriptor_, 0666 & ~mask) == 0 && ::fsync(descriptor_) == 0;
    TORCH_CHECK(flushed, "adaact: cannot flush ", target, ": ", std::strerror(errno));
    TORCH_CHECK(::rename(name_.c_str(), target.c_str()) == 0, "adaact: cannot replace ", target,
                ": ", std::strerror(errno));
    name_.clear();
  }

 private:
  std::string name_;
  int descriptor_ = -1;
};

/// The rename itself survives a power cut only once the folder is flushed too.
void flush_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  TemporaryFile file(path);
  file.write(bytes, path);
  file.rename_to(path);
  flush_folder(path.has_parent_path() ? path.parent_path() : ".");
}

}  // namespace adaact
