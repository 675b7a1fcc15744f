#include <adaact/train/seed_runs.h>

#include <algorithm>
#include <exception>
#include <future>
#include <utility>

#include <c10/util/Exception.h>

#include "train/run/interrupt.h"
#include "train/run/run_folder.h"

namespace adaact {
namespace fs = std::filesystem;

// LibTorch has 32 streams for a GPU and hands them out in turn; two runs on one would capture each
// other's work.
constexpr std::size_t kMostAtOnce = 16;

SeedRuns::SeedRuns(const RunConfig& config, std::vector<std::uint64_t> seeds, fs::path folder,
                   const RunSettings& settings)
    : config_(config), seeds_(std::move(seeds)), folder_(std::move(folder)), settings_(settings) {
  TORCH_CHECK_VALUE(!seeds_.empty(), "seeds are empty, expected one at least");
  for (auto seed = seeds_.begin(); seed != seeds_.end(); ++seed) {
    TORCH_CHECK_VALUE(std::find(seeds_.begin(), seed, *seed) == seed, "seeds hold ", *seed,
                      " twice, expected each once");
    // Said before any of the runs has begun.
    const auto folder_of_seed = folder_of(*seed);
    TORCH_CHECK(settings_.resume || is_unused(folder_of_seed), "adaact: ", folder_of_seed.string(),
                " exists already; resume the runs (--resume) or name another folder");
  }
  config_.resolve();
}

fs::path SeedRuns::folder_of(std::uint64_t seed) const {
  return folder_ / ("seed-" + std::to_string(seed));
}

std::string SeedRuns::obstacle_to_concurrency() const {
  if (config_.device == "cpu") return "one run keeps all cores of the CPU busy";
  if (config_.drop_path > 0.0) return "drop_path draws from the random generator that all share";
  return {};
}

SeedRuns::Outcome SeedRuns::run_one(std::uint64_t seed, TrainingCallback& callback) const {
  Outcome outcome;
  outcome.seed = seed;
  if (const auto signal = InterruptGuard::received(); signal != 0) {
    outcome.result = {RunResult::Status::Interrupted, signal, {}};
    return outcome;
  }
  auto config = config_;
  config.seed = seed;
  auto settings = settings_;
  settings.on_message = [this, seed](const std::string& message) {
    settings_.on_message("seed " + std::to_string(seed) + ": " + message);
  };
  try {
    outcome.result = TrainingRun(config, folder_of(seed), settings).run(callback);
  } catch (...) {
    outcome.error = std::current_exception();
  }
  return outcome;
}

std::vector<SeedRuns::Outcome> SeedRuns::run(const MakeCallback& make_callback) {
  const InterruptGuard interrupts;  // also between two of them
  std::vector<std::unique_ptr<TrainingCallback>> callbacks;
  for (const auto seed : seeds_) callbacks.push_back(make_callback(seed));

  const bool at_once = obstacle_to_concurrency().empty();
  // A deferred one runs when it is asked for: on this thread, after the one before it.
  const auto policy = at_once ? std::launch::async : std::launch::deferred;
  std::vector<Outcome> outcomes;
  while (outcomes.size() < seeds_.size()) {
    const auto end = std::min(outcomes.size() + kMostAtOnce, seeds_.size());
    std::vector<std::future<Outcome>> running;
    for (auto i = outcomes.size(); i < end; ++i) {
      running.push_back(
          std::async(policy, [this, i, &callbacks] { return run_one(seeds_[i], *callbacks[i]); }));
    }
    for (auto& each : running) outcomes.push_back(each.get());
  }
  return outcomes;
}

}  // namespace adaact
