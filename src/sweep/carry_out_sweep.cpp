#include "sweep/carry_out_sweep.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <adaact/optim/non_finite.h>
#include <adaact/optim/registry.h>
#include <c10/util/Exception.h>
#include <torch/nn/modules/linear.h>

#include "io/atomic_file.h"
#include "io/error_text.h"
#include "io/file_descriptor.h"
#include "io/folder_lock.h"
#include "sweep/halving.h"
#include "train/run/interrupt.h"
#include "train/run/run_parts.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

constexpr char kSweepFile[] = "sweep.json";
// As many as seeds at once: LibTorch has 32 streams for a GPU and hands them out in turn.
constexpr std::int64_t kMostJobs = 16;

/// The folder of a sweep, held against other processes while this lives.
class SweepFolder {
 public:
  SweepFolder(const fs::path& path, const SweepPlan& plan) {
    std::error_code error;
    fs::create_directories(path, error);
    TORCH_CHECK(!error, "adaact: cannot make the folder ", path.string(), ": ", error.message());
    lock_ = lock_folder(path, "carrying out the sweep in");
    if (holds_sweep(path)) {
      check_same(plan, path);
    } else {
      check_empty(path);
    }
    write_file_atomically(path / kSweepFile, plan.to_json());
  }

 private:
  static void check_same(const SweepPlan& plan, const fs::path& path) {
    std::string list;
    for (const auto& line : conflicts(plan, read_sweep(path))) {
      list += (list.empty() ? "" : "; ") + line;
    }
    TORCH_CHECK(list.empty(), "adaact: ", path.string(), " holds another sweep: ", list,
                "; name another folder, or give the same options and at least the same values");
  }

  /// Nothing may be there but what a process left that was killed while it wrote the first file.
  static void check_empty(const fs::path& path) {
    for (const auto& entry : fs::directory_iterator(path)) {
      TORCH_CHECK(unfinished_file(entry.path()) == kSweepFile, "adaact: ", path.string(),
                  " holds something else than a sweep: there is no sweep.json in it");
      fs::remove(entry.path());
    }
  }

  FileDescriptor lock_;
};

/// Trials that are compared with one another: those of one optimizer.
struct Bracket {
  std::vector<std::size_t> trials;
  std::vector<std::int64_t> rungs;
};

class SweepInProgress {
 public:
  SweepInProgress(const SweepPlan& plan, const fs::path& folder, const SweepSettings& settings)
      : settings_(settings), epochs_(plan.base.epochs) {
    std::map<std::string, std::size_t> bracket_of;
    for (const auto& trial : trials_of(plan)) {
      const auto [place, is_new] = bracket_of.emplace(trial.config.optimizer, brackets_.size());
      if (is_new) brackets_.emplace_back();
      brackets_[place->second].trials.push_back(results_.size());
      results_.push_back(read_or_fail(trial, folder / trial.name));
    }
    for (auto& bracket : brackets_) {
      if (settings.halving) bracket.rungs = halving_rungs(epochs_, bracket.trials.size());
    }
    is_training_.resize(results_.size());
    mark_stopped();
  }

  SweepResult work() {
    const InterruptGuard interrupts;  // also between two trials
    observe_from_now_on();
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const auto state = results_[i].state;
      const bool goes_on = state == TrialState::NotBegun || state == TrialState::Unfinished;
      if (!goes_on) tell(SweepEvent::Kind::IsThere, i);
    }
    std::vector<std::future<void>> workers;
    for (std::int64_t i = 0; i < settings_.jobs; ++i) {
      workers.push_back(std::async(std::launch::async, [this] { train_what_is_due(); }));
    }
    for (auto& worker : workers) worker.get();
    return {results_, InterruptGuard::received()};
  }

 private:
  struct Task {
    std::size_t trial = 0;
    std::int64_t epochs = 0;
  };

  /// LibTorch allows no callback to be added while operators run on other threads, and the first observer
  /// adds one.
  static void observe_from_now_on() {
    torch::nn::Linear layer(1, 1);
    make_optimizer("adaact", *layer);
  }

  Halving decided_in(const Bracket& bracket) const {
    std::vector<Standing> standings;
    for (const auto trial : bracket.trials) standings.push_back(results_[trial].standing());
    return halve(standings, bracket.rungs, epochs_);
  }

  bool is_due(const TrialResult& result, std::int64_t epochs) const {
    if (result.is_lost() || result.state == TrialState::Finished) return false;
    return epochs == epochs_ || static_cast<std::int64_t>(result.accuracies.size()) < epochs;
  }

  /// The longest piece of work that can be done now; of equal ones the first.
  std::optional<Task> next_task() const {
    std::optional<Task> longest;
    std::int64_t most = 0;
    for (const auto& bracket : brackets_) {
      const auto due = decided_in(bracket).epochs;
      for (std::size_t i = 0; i < due.size(); ++i) {
        const auto trial = bracket.trials[i];
        if (is_training_[trial] || !is_due(results_[trial], due[i])) continue;
        const auto left = due[i] - static_cast<std::int64_t>(results_[trial].accuracies.size()) + 1;
        if (left <= most) continue;
        most = left;
        longest = Task{trial, due[i]};
      }
    }
    return longest;
  }

  /// Marks those that others have left behind, and returns them.
  std::vector<std::size_t> mark_stopped() {
    std::vector<std::size_t> stopped;
    for (const auto& bracket : brackets_) {
      const auto still_in = decided_in(bracket).still_in;
      for (std::size_t i = 0; i < still_in.size(); ++i) {
        auto& state = results_[bracket.trials[i]].state;
        if (state != TrialState::Unfinished || still_in[i]) continue;
        state = TrialState::StoppedEarly;
        stopped.push_back(bracket.trials[i]);
      }
    }
    return stopped;
  }

  void tell(SweepEvent::Kind kind, std::size_t trial) const {
    settings_.on_event({kind, results_[trial]});
  }

  void train_what_is_due() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (InterruptGuard::received() == 0) {
      const auto task = next_task();
      if (!task) {
        const bool more_may_come =
            std::find(is_training_.begin(), is_training_.end(), true) != is_training_.end();
        if (!more_may_come) break;
        something_ended_.wait(lock);
        continue;
      }
      is_training_[task->trial] = true;
      tell(SweepEvent::Kind::Begins, task->trial);
      const auto before = results_[task->trial];
      lock.unlock();
      auto after = train(before, task->epochs);
      lock.lock();
      results_[task->trial] = std::move(after);
      is_training_[task->trial] = false;
      tell(SweepEvent::Kind::Ends, task->trial);
      for (const auto stopped : mark_stopped()) tell(SweepEvent::Kind::Stops, stopped);
      something_ended_.notify_all();
    }
    something_ended_.notify_all();
  }

  /// Never throws: what goes wrong with one trial is nothing to the others.
  TrialResult train(const TrialResult& before, std::int64_t epochs) const {
    auto settings = settings_.run;
    settings.resume = true;
    settings.stop_after_epoch = epochs;
    settings.on_message = [this, &before](const std::string& message) {
      settings_.run.on_message(before.trial.name + ": " + message);
    };
    try {
      const auto callback = settings_.make_callback(before.trial);
      TrainingRun(before.trial.config, before.folder, settings).run(*callback);
    } catch (const NonFiniteError&) {
      // A result, which the folder tells.
    } catch (const std::exception& error) {
      return failed(before, error);
    }
    return read_or_fail(before.trial, before.folder);
  }

  static TrialResult failed(TrialResult result, const std::exception& error) {
    result.state = TrialState::Failed;
    result.error = error_text_within_line(error);
    return result;
  }

  static TrialResult read_or_fail(const Trial& trial, const fs::path& folder) {
    try {
      return read_trial(trial, folder);
    } catch (const std::exception& error) {
      TrialResult unreadable;
      unreadable.trial = trial;
      unreadable.folder = folder;
      return failed(std::move(unreadable), error);
    }
  }

  const SweepSettings& settings_;
  const std::int64_t epochs_;
  std::vector<Bracket> brackets_;
  std::mutex mutex_;  // of what follows
  std::condition_variable something_ended_;
  std::vector<TrialResult> results_;
  std::vector<bool> is_training_;
};

/// Data that are not there are found before any trial fails by them.
void check_data(const RunConfig& base) {
  auto one_image = base;
  one_image.limit_test = 1;
  one_image.skip_bad_images = false;
  open_split(one_image, Split::Test);
}

}  // namespace

std::string obstacle_to_jobs(const RunConfig& base) {
  if (base.drop_path > 0.0) return "drop_path draws from the random generator that all share";
  return {};
}

SharedCores share_cores(const RunConfig& config, std::size_t trials, std::int64_t jobs,
                        std::int64_t cores) {
  const bool on_cpu = config.device == "cpu";
  SharedCores shared;
  const auto per_trial = std::max<std::int64_t>(1, config.threads);
  shared.jobs = jobs > 0 ? jobs : on_cpu ? std::max<std::int64_t>(1, cores / per_trial) : kMostJobs;
  const auto most = std::min<std::int64_t>(kMostJobs, static_cast<std::int64_t>(trials));
  shared.jobs = std::clamp<std::int64_t>(shared.jobs, 1, std::max<std::int64_t>(1, most));
  if (!obstacle_to_jobs(config).empty()) shared.jobs = 1;
  shared.threads =
      config.threads > 0 ? config.threads : std::max<std::int64_t>(1, cores / shared.jobs);
  return shared;
}

bool holds_sweep(const fs::path& folder) { return fs::exists(folder / kSweepFile); }

SweepPlan read_sweep(const fs::path& folder) {
  TORCH_CHECK(holds_sweep(folder), "adaact: ", folder.string(),
              " holds no sweep: there is no sweep.json in it");
  const auto file = folder / kSweepFile;
  auto plan = SweepPlan::from_json(read_file(file), file.string());
  try {
    plan.resolve();
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "adaact: ", file.string(),
                " is no plan of a sweep: ", error_text_within_line(error));
  }
  return plan;
}

SweepResult carry_out_sweep(const SweepPlan& plan, const fs::path& folder,
                            const SweepSettings& settings) {
  TORCH_CHECK(settings.jobs >= 1 && settings.jobs <= kMostJobs, "jobs is ", settings.jobs,
              ", expected 1 to ", kMostJobs);
  TORCH_CHECK(settings.jobs == 1 || obstacle_to_jobs(plan.base).empty(), "jobs is ", settings.jobs,
              ", expected 1: ", obstacle_to_jobs(plan.base));
  check_data(plan.base);
  const SweepFolder held(folder, plan);
  return SweepInProgress(plan, folder, settings).work();
}

}  // namespace adaact
