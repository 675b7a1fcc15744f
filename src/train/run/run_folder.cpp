#include "train/run/run_folder.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "io/atomic_file.h"
#include "train/run/checkpoint_store.h"
#include "train/run/environment.h"
#include "train/run/run_file_names.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

void check_same(const RunConfig& config, const fs::path& config_file) {
  const auto there = RunConfig::read(config_file);
  std::string list;
  for (const auto& line : differences(config, there)) list += (list.empty() ? "" : "; ") + line;
  TORCH_CHECK(list.empty(), "adaact: ", config_file.parent_path().string(),
              " holds a run of another configuration: ", list,
              "; name another folder or give the same options");
}

}  // namespace

RunFolder::RunFolder(fs::path path, const RunConfig& config, bool resume) : path_(std::move(path)) {
  TORCH_CHECK(resume || !fs::exists(path_), "adaact: ", path_.string(),
              " exists already; resume the run in it (--resume) or name another folder");
  std::error_code error;
  fs::create_directories(path_, error);
  TORCH_CHECK(!error, "adaact: cannot make the folder ", path_.string(), ": ", error.message());
  lock();
  const auto config_file = path_ / kConfigFile;
  if (fs::exists(config_file)) {
    check_same(config, config_file);
    remove_leftovers();
    return;
  }
  // Empty, but for what a process left that was killed while it wrote the first file.
  for (const auto& entry : fs::directory_iterator(path_)) {
    TORCH_CHECK(unfinished_file(entry.path()) == kConfigFile, "adaact: ", path_.string(),
                " holds something else than a run: there is no config.json in it");
  }
  remove_leftovers();
  write_file_atomically(config_file, config.to_json());
}

void RunFolder::add_environment(const std::string& device) const {
  auto environments = environments_in(path_);
  environments.push_back(describe_environment(device));
  write_file_atomically(path_ / kEnvironmentFile, environments.dump(2) + "\n");
}

fs::path RunFolder::model_file() const { return path_ / kModelFile; }

void RunFolder::lock() {
  folder_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  TORCH_CHECK(folder_.is_open(), "adaact: cannot open the folder ", path_.string(), ": ",
              std::strerror(errno));
  // Some network file systems know no locks: there, two processes at once are the user's care.
  const bool held = ::flock(folder_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  TORCH_CHECK(!held, "adaact: another process is training in ", path_.string());
}

void RunFolder::remove_leftovers() const {
  for (const auto& entry : fs::directory_iterator(path_)) {
    const auto target = unfinished_file(entry.path());
    if (target &&
        (target == kConfigFile || target == kEnvironmentFile || target == kTestDetailsFile ||
         target == kModelFile || CheckpointStore::is_checkpoint(*target))) {
      fs::remove(entry.path());
    }
  }
}

}  // namespace adaact
