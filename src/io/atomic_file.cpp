#include "io/atomic_file.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <c10/util/Exception.h>

namespace adaact {
namespace {

constexpr char kUnfinished[] = ".tmp";  // then the process and a number

/// An open temporary file that disappears unless it is renamed to its place.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target) {
    static std::atomic<unsigned> number{0};
    // Not mkstemp, which makes the file private: a result should be as readable as any other file.
    do {
      name_ = target.string() + kUnfinished + std::to_string(::getpid()) + "." +
              std::to_string(++number);
      descriptor_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (descriptor_ < 0 && errno == EEXIST);
    TORCH_CHECK(descriptor_ >= 0, "adaact: cannot write beside ", target, ": ",
                std::strerror(errno));
  }
  ~TemporaryFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    if (!renamed_) ::unlink(name_.c_str());
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
    TORCH_CHECK(::fsync(descriptor_) == 0, "adaact: cannot flush ", target, ": ",
                std::strerror(errno));
    TORCH_CHECK(::rename(name_.c_str(), target.c_str()) == 0, "adaact: cannot replace ", target,
                ": ", std::strerror(errno));
    renamed_ = true;
  }

 private:
  std::string name_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

/// The rename itself survives a power cut only once the folder is flushed too.
void flush_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

bool is_unfinished_file(const std::filesystem::path& path) {
  const auto name = path.filename().string();
  const auto at = name.rfind(kUnfinished);
  return at != std::string::npos &&
         name.find_first_not_of("0123456789.", at + std::strlen(kUnfinished)) == std::string::npos;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  TemporaryFile file(path);
  file.write(bytes, path);
  file.rename_to(path);
  flush_folder(path.has_parent_path() ? path.parent_path() : ".");
}

}  // namespace adaact
