#include "going_on.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <c10/util/Exception.h>

#include "io/joined.h"
#include "train/run/run_file_names.h"

namespace adaact::app {
namespace {

namespace fs = std::filesystem;

constexpr char kWhatMayChange[] =
    "with --resume only --epochs (to more), --patience, --device, --threads, --data-dir and what "
    "concerns checkpoints, data loading and output may change";

/// The seed in the name of a folder that `train --seeds` made.
std::optional<std::uint64_t> seed_in(const std::string& name) {
  const std::string prefix = "seed-";
  if (name.rfind(prefix, 0) != 0) return std::nullopt;
  std::uint64_t seed = 0;
  const auto* end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + prefix.size(), end, seed);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return seed;
}

std::vector<CLI::Option*> typed_options(CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->count() > 0; });
}

/// "--batch-size is 8, but the run in runs/a has 16": of an option that is at fault.
std::string disagreement(const CLI::Option& option, const ConfigDifference& difference,
                         const std::string& run) {
  const auto name = option.get_name();
  if (option.get_items_expected_max() == 0) {  // a flag
    return name + " is given, but in the run in " + run + " " + difference.field + " is " +
           difference.there;
  }
  const auto value = option.get_name() == "--optimizer-options"
                         ? "has " + difference.field + " " + difference.here
                         : "is " + joined(option.reduced_results());
  return name + " " + value + ", but the run in " + run + " has " + difference.there;
}

}  // namespace

std::optional<BegunRun> begun_run_in(const fs::path& folder) {
  if (fs::exists(folder / kConfigFile)) return BegunRun{folder / kConfigFile, {}};
  if (!fs::is_directory(folder)) return std::nullopt;
  BegunRun begun;
  std::int64_t most_epochs = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto seed = seed_in(entry.path().filename().string());
    const auto config_file = entry.path() / kConfigFile;
    if (!seed || !fs::exists(config_file)) continue;
    begun.seeds.push_back(*seed);
    // One that was extended, while others still wait for it, says how far all are to go.
    const auto epochs = RunConfig::read(config_file).epochs;
    if (epochs <= most_epochs) continue;
    most_epochs = epochs;
    begun.config_file = config_file;
  }
  if (begun.seeds.empty()) return std::nullopt;
  std::sort(begun.seeds.begin(), begun.seeds.end());
  return begun;
}

void go_on_with(RunConfig& config, const BegunRun& begun, CLI::App& command) {
  const auto there = RunConfig::read(begun.config_file);
  const auto run = begun.config_file.parent_path().string();
  for (auto* option : typed_options(command)) {
    config = there;
    option->run_callback();
    if (!config.weights.empty()) {
      config.weights = fs::absolute(config.weights).lexically_normal().string();
    }
    for (const auto& difference : obstacles_to_going_on(config, there)) {
      TORCH_CHECK_VALUE(false, disagreement(*option, difference, run), "; ", kWhatMayChange);
    }
  }
  config = there;
  for (auto* option : typed_options(command)) option->run_callback();
  if (config.device == "cpu") {  // what only a GPU has
    if (config.precision == "tf32") config.precision = "fp32";
    config.deterministic = false;
  }
}

void check_it_may_begin(const std::string& folder, const CLI::App& command) {
  static const std::set<std::string> of_going_on{
      "--out",      "--resume",           "--epochs",      "--patience",
      "--device",   "--threads",          "--quiet",       "--workers",
      "--json",     "--keep-checkpoints", "--graph",       "--checkpoint-every",
      "--data-dir", "--save-best",        "--rank-timeout"};
  const auto says_what_to_train = [](const CLI::Option* option) {
    return option->count() > 0 && of_going_on.count(option->get_name()) == 0;
  };
  TORCH_CHECK_VALUE(!command.get_options(says_what_to_train).empty(), "adaact: there is no run in ",
                    folder, " to go on with; without --resume one begins there");
}

}  // namespace adaact::app
