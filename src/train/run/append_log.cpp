#include "train/run/append_log.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <c10/util/Exception.h>

namespace adaact {

AppendLog::AppendLog(const std::filesystem::path& path, std::int64_t size)
    : path_(path), file_(open_regular_file(path, O_WRONLY | O_CREAT | O_APPEND)), size_(size) {
  struct stat status {};
  TORCH_CHECK(::fstat(file_.number(), &status) == 0, "adaact: cannot read ", path_.string(), ": ",
              std::strerror(errno));
  TORCH_CHECK(status.st_size >= size, "adaact: ", path_.string(), " has ", status.st_size,
              " bytes, expected at least ", size,
              ", as many as when the checkpoint was taken; put the whole file back");
  TORCH_CHECK(::ftruncate(file_.number(), size) == 0, "adaact: cannot shorten ", path_.string(),
              ": ", std::strerror(errno));
}

void AppendLog::append(std::string_view bytes) {
  file_.write(bytes, path_);
  size_ += static_cast<std::int64_t>(bytes.size());
}

void AppendLog::flush() { file_.flush(path_); }

}  // namespace adaact
