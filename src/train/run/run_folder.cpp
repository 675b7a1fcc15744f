#include "train/run/run_folder.h"

#include <algorithm>
#include <string>
#include <utility>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "io/atomic_file.h"
#include "io/folder_lock.h"
#include "io/json_text.h"
#include "train/run/checkpoint_store.h"
#include "train/run/environment.h"
#include "train/run/run_file_names.h"
#include "train/run/run_settings.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

void check_it_can_go_on(const RunConfig& config, const RunConfig& there, const fs::path& folder) {
  std::string list;
  for (const auto& each : obstacles_to_going_on(config, there)) {
    list += (list.empty() ? "" : "; ") + each.text();
  }
  TORCH_CHECK_VALUE(list.empty(), "adaact: ", folder.string(),
                    " holds a run of another configuration: ", list,
                    "; name another folder or give the same options");
}

std::string text_of_config(const RunConfig& config, const RunSettings& settings) {
  auto object = parse_json<nlohmann::json>(config.to_json(), kConfigFile);
  object[kSettingsField] = to_json(settings);
  return object.dump(2) + "\n";
}

}  // namespace

bool is_unused(const fs::path& folder) {
  if (!fs::exists(folder)) return true;
  if (!fs::is_directory(folder)) return false;
  const fs::directory_iterator entries(folder);
  return std::all_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return unfinished_file(entry.path()) == kConfigFile;
  });
}

RunFolder::RunFolder(fs::path path, const RunConfig& config, const RunSettings& settings)
    : path_(std::move(path)) {
  const auto refuse_unless = [this](bool may_be) {
    TORCH_CHECK(may_be, "adaact: ", path_.string(),
                " exists already; resume the run in it (--resume) or name another folder");
  };
  refuse_unless(settings.resume || is_unused(path_));
  std::error_code error;
  fs::create_directories(path_, error);
  TORCH_CHECK(!error, "adaact: cannot make the folder ", path_.string(), ": ", error.message());
  lock();
  const auto config_file = path_ / kConfigFile;
  if (fs::exists(config_file)) {
    refuse_unless(settings.resume);  // another process may have begun one in the meantime
    begun_as_ = RunConfig::read(config_file);
    check_it_can_go_on(config, *begun_as_, path_);
    remove_leftovers();
    return;
  }
  TORCH_CHECK(is_unused(path_), "adaact: ", path_.string(),
              " holds something else than a run: there is no config.json in it");
  remove_leftovers();
  write_file_atomically(config_file, text_of_config(config, settings));
}

void RunFolder::go_on_as(const RunConfig& config, const RunSettings& settings,
                         std::int64_t epochs) const {
  if (finished()) {
    fs::rename(model_file(),
               path_ / ("model.after-" + std::to_string(epochs) + "-epochs.safetensors"));
  }
  const auto config_file = path_ / kConfigFile;
  const auto text = text_of_config(config, settings);
  if (read_file(config_file) != text) write_file_atomically(config_file, text);
}

void RunFolder::add_environment(const std::string& device) const {
  auto environments = environments_in(path_);
  environments.push_back(describe_environment(device));
  write_file_atomically(path_ / kEnvironmentFile, environments.dump(2) + "\n");
}

fs::path RunFolder::model_file() const { return path_ / kModelFile; }

fs::path RunFolder::best_file() const { return path_ / kBestFile; }

void RunFolder::lock() { folder_ = lock_folder(path_, "training in"); }

void RunFolder::remove_leftovers() const {
  for (const auto& entry : fs::directory_iterator(path_)) {
    const auto target = unfinished_file(entry.path());
    if (target &&
        (target == kConfigFile || target == kEnvironmentFile || target == kTestDetailsFile ||
         target == kModelFile || target == kBestFile || CheckpointStore::is_checkpoint(*target))) {
      fs::remove(entry.path());
    }
  }
}

}  // namespace adaact
