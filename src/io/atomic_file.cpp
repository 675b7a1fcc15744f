#include "io/atomic_file.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <regex>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <c10/util/Exception.h>

#include "io/file_descriptor.h"

namespace adaact {
namespace {

/// An open temporary file that disappears unless it is renamed to its place.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target) : target_(target) {
    static std::atomic<unsigned> number{0};
    // The name is not chosen by mkstemp, which makes the file private: a result should be as readable as any other
    // file.
    do {
      name_ =
          target.string() + ".tmp" + std::to_string(::getpid()) + "." + std::to_string(++number);
      file_ = FileDescriptor(::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    } while (!file_.is_open() && errno == EEXIST);
    TORCH_CHECK(file_.is_open(), "adaact: cannot write beside ", target.string(), ": ",
                std::strerror(errno));
  }
  ~TemporaryFile() {
    if (file_.is_open() && !renamed_) ::unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::string_view bytes) { file_.write(bytes, target_); }

  void rename_to_target() {
    file_.flush(target_);
    TORCH_CHECK(::rename(name_.c_str(), target_.c_str()) == 0, "adaact: cannot replace ",
                target_.string(), ": ", std::strerror(errno));
    renamed_ = true;
  }

 private:
  const std::filesystem::path& target_;
  std::string name_;
  FileDescriptor file_;
  bool renamed_ = false;
};

/// The rename itself survives a power cut only once the folder is flushed too.
void flush_folder(const std::filesystem::path& folder) {
  const FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.is_open()) ::fsync(file.number());
}

}  // namespace

std::optional<std::string> unfinished_file(const std::filesystem::path& path) {
  static const std::regex pattern("(.+)\\.tmp[0-9]+\\.[0-9]+");
  const auto name = path.filename().string();
  std::smatch match;
  if (!std::regex_match(name, match, pattern)) return std::nullopt;
  return match[1];
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  TemporaryFile file(path);
  file.write(bytes);
  file.rename_to_target();
  flush_folder(path.has_parent_path() ? path.parent_path() : ".");
}

}  // namespace adaact
