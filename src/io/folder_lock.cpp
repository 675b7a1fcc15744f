#include "io/folder_lock.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>

#include <c10/util/Exception.h>

namespace adaact {

FileDescriptor lock_folder(const std::filesystem::path& folder, const char* doing) {
  FileDescriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  TORCH_CHECK(lock.is_open(), "adaact: cannot open the folder ", folder.string(), ": ",
              std::strerror(errno));
  // Some network file systems know no locks: there, two processes at once are the user's care.
  const bool held = ::flock(lock.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  TORCH_CHECK(!held, "adaact: another process is ", doing, " ", folder.string());
  return lock;
}

}  // namespace adaact
