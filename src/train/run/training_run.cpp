#include <adaact/train/training_run.h>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <adaact/models/weights.h>
#include <adaact/optim/non_finite.h>
#include <adaact/ranks/gradient_exchange.h>
#include <adaact/train/evaluate.h>
#include <adaact/train/model_card.h>
#include <torch/torch.h>

#include "io/atomic_file.h"
#include "io/error_text.h"
#include "train/graph/set_up_mutex.h"
#include "train/run/best_epoch.h"
#include "train/run/checkpoint.h"
#include "train/run/checkpoint_store.h"
#include "train/run/checkpoint_writer.h"
#include "train/run/interrupt.h"
#include "train/run/rank_agreement.h"
#include "train/run/run_file_names.h"
#include "train/run/run_folder.h"
#include "train/run/run_journal.h"
#include "train/run/run_parts.h"
#include "train/step/rank_totals.h"
#include "train/step/weight_average.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostWorkers = 256;
constexpr std::int64_t kMostCheckpoints = 1000;

bool patience_is_over(const RunConfig& config, const BestEpoch& best) {
  return config.patience > 0 && best.since() >= config.patience;
}

TrainerOptions trainer_options(const RunConfig& config, const RunSettings& settings,
                               const RunParts& parts, const BestEpoch& best) {
  auto options = step_options(config);
  options.epochs = config.epochs;
  options.schedule =
      build_schedule(config, Trainer::steps_per_epoch(parts.train_loader, config.accumulation));
  options.update_norm_every = settings.update_norm_every;
  options.state_every = settings.checkpoint_every;
  options.activation_variances = settings.activation_variances;
  options.stop_after_epoch = settings.stop_after_epoch;
  options.ranks = settings.ranks;
  options.should_stop = [] { return InterruptGuard::received() != 0; };
  options.is_enough = [&config, &best] { return patience_is_over(config, best); };
  if (settings.graph && options.device.is_cuda()) {
    const auto obstacle = Trainer::obstacle_to_graph(*parts.optimizer, parts.train_loader, options);
    options.graph = obstacle.empty();
    if (!options.graph) settings.on_message("steps are not captured in a CUDA graph: " + obstacle);
  }
  return options;
}

/// Why a run ended before its last epoch; empty where it did not.
std::string ending_of(const RunConfig& config, const BestEpoch& best, const Trainer& trainer) {
  if (trainer.state().epoch >= config.epochs) return {};
  return "test top-1 has not been better than the " + best.text() + " for " +
         std::to_string(config.patience) + (config.patience == 1 ? " epoch" : " epochs");
}

/// While it is held no other run captures a graph: it would take this run's memory for its own.
std::unique_lock<std::mutex> outside_of_captures(const RunConfig& config) {
  std::unique_lock<std::mutex> lock(set_up_mutex(), std::defer_lock);
  if (torch::Device(config.device).is_cuda()) lock.lock();
  return lock;
}

/// What the test says in detail, of the images of all ranks, each of which tests its part; nothing if a signal came to
/// any of them.
std::optional<TestDetails> test_in_detail(const RunConfig& config, RunParts& parts,
                                          const TrainerState& state, Communicator& ranks) {
  const auto alone = outside_of_captures(config);
  const AverageInPlace average(*parts.model, state.average);
  const auto evaluation = evaluate_in_detail_unless(
      [&ranks] { return any_rank(InterruptGuard::received() != 0, ranks); }, *parts.model,
      parts.test_loader, torch::Device(config.device), config.precision == "bf16",
      config.memory_format == "channels-last");
  if (!evaluation) return std::nullopt;
  return of_all_ranks(evaluation->details, ranks);
}

/// Goes back to the newest checkpoint, where there is one. Returns how much the run had written.
JournalSize restore_or_begin(const std::optional<CheckpointStore::Loaded>& newest, RunParts& parts,
                             Trainer& trainer) {
  if (!newest) return {};
  const auto& source = newest->source;
  const auto state = read_run_state(newest->checkpoint, source);
  const auto data = parts.data_description();
  TORCH_CHECK(state.data == data, "adaact: the data are not those of ", source, ": they were '",
              state.data, "', now they are '", data, "'");
  const auto problem = trainer.problem_with(state.trainer);
  TORCH_CHECK(problem.empty(), "adaact: ", source, ": the field ", problem);
  TORCH_CHECK(state.trainer.step == newest->step, "adaact: ", source, ": the field 'step' is ",
              state.trainer.step, ", expected ", newest->step, ", as the file is named");
  restore_checkpoint(newest->checkpoint, *parts.model, *parts.optimizer, source);
  trainer.set_state(state.trainer);
  return state.journal;
}

/// The parts of a run that work together once it trains.
struct RunningParts {
  const RunConfig& config;
  const RunSettings& settings;
  RunParts& parts;
  Trainer& trainer;
  BestEpoch& best;
  const RunFolder& folder;
};

/// A run while it runs: a trainer with its journal and its checkpoints.
class RunInProgress : public TrainingCallback {
 public:
  RunInProgress(const RunningParts& running, const JournalSize& journal)
      : config_(running.config),
        settings_(running.settings),
        parts_(running.parts),
        trainer_(running.trainer),
        best_(running.best),
        folder_(running.folder),
        card_{config_.model, config_.batchnorm, parts_.train_data->info(), config_.resize_size},
        data_(parts_.data_description()),
        store_(folder_.path(), settings_.keep_checkpoints),
        journal_(folder_.path(), journal, settings_.on_message) {}

  RunResult run(TrainingCallback& callback) {
    const InterruptGuard interrupts;
    trainer_.add_callback(journal_);
    trainer_.add_callback(*this);
    trainer_.add_callback(callback);
    if (!train()) return interrupted(signal_of_all(InterruptGuard::received(), *settings_.ranks));
    if (!save_test_details()) {
      return interrupted(signal_of_all(InterruptGuard::received(), *settings_.ranks));
    }
    // Where more epochs would go on from; at the end of each epoch it is there already.
    if (settings_.checkpoint_every > 0 && settings_.keep_checkpoints > 0) save();
    writer_.finish();
    save_model();
    store_.keep_newest(settings_.keep_checkpoints);
    return {RunResult::Status::Finished, 0, ending_of(config_, best_, trainer_)};
  }

  void on_step(const Trainer& trainer, const StepMetrics& /*metrics*/) override {
    const auto period = settings_.checkpoint_every;
    if (period > 0 && trainer.state().step % period == 0) {
      save();
    } else {
      writer_.check();
    }
  }
  void on_epoch(const Trainer& /*trainer*/, const EpochMetrics& metrics) override {
    const bool is_best = best_.add(metrics);
    if (is_best && settings_.save_best) save_best(metrics);
    if (settings_.checkpoint_every == 0) save();
  }

 private:
  /// To the end, or until a signal: false. A run that diverged is a result too, which its folder tells.
  bool train() {
    try {
      return trainer_.run();
    } catch (const NonFiniteError& error) {
      const auto& state = trainer_.state();
      journal_.note_divergence({state.step + 1, state.epoch, error.what()});
      throw;
    }
  }

  RunResult interrupted(int signal) {
    finish_or_tell();
    save();
    writer_.finish();
    return {RunResult::Status::Interrupted, signal, {}};
  }

  /// Before a checkpoint that takes the place of the one under way: where that has failed, nothing is lost with it.
  void finish_or_tell() {
    try {
      writer_.finish();
    } catch (const std::exception& error) {
      settings_.on_message(error_text_within_line(error));
    }
  }

  void save() {
    const RunState state{trainer_.state(), journal_.flush(), data_};
    writer_.begin(state.trainer.step,
                  make_checkpoint(state, *parts_.model, *parts_.optimizer, card_));
  }

  void save_best(const EpochMetrics& metrics) const {
    const AverageInPlace average(*parts_.model, trainer_.state().average);
    auto metadata = card_.to_metadata();
    metadata["epoch"] = std::to_string(metrics.epoch + 1);
    save_weights(*parts_.model, folder_.best_file(), metadata);
  }

  /// Before the model, whose being there says that nothing is missing. False if a signal came: then whoever goes on
  /// with the run does this again.
  bool save_test_details() {
    const auto details = test_in_detail(config_, parts_, trainer_.state(), *settings_.ranks);
    if (details) write_file_atomically(folder_.path() / kTestDetailsFile, details->to_json());
    return details.has_value();
  }

  void save_model() {
    journal_.flush();
    const auto alone = outside_of_captures(config_);
    const AverageInPlace average(*parts_.model, trainer_.state().average);
    save_weights(*parts_.model, folder_.model_file(), card_.to_metadata());
  }

  const RunConfig& config_;
  const RunSettings& settings_;
  RunParts& parts_;
  Trainer& trainer_;
  BestEpoch& best_;
  const RunFolder& folder_;
  const ModelCard card_;
  const std::string data_;
  CheckpointStore store_;
  RunJournal journal_;
  CheckpointWriter writer_{store_};  // last: while it ends, the others are still there
};

void load_initial_weights(Model& model, const RunConfig& config, const RunSettings& settings) {
  LoadOptions options;
  options.replace_head = true;
  const auto report = load_weights(model, config.weights, options);
  for (const auto& name : report.replaced) {
    settings.on_message("'" + name + "' in " + config.weights +
                        " is for another number of classes: it begins anew");
  }
}

/// Whether a finished run is to go on.
bool asks_for_more(const RunConfig& config, const RunConfig& there) {
  return config.epochs > there.epochs || config.patience != there.patience;
}

std::string learning_rate_from_here(const RunConfig& config) {
  const auto epochs = std::to_string(config.epochs) + " epochs";
  if (config.schedule == "constant") return "the learning rate stays as it is";
  if (config.schedule.rfind("cosine", 0) == 0) {
    return "from here on the learning rate is that of a cosine over " + epochs;
  }
  return "the learning rate goes on to fall at its milestones";
}

/// Says what is otherwise than it was and is no mistake.
void tell_of_changes(const RunConfig& config, const RunConfig& there, const RunSettings& settings) {
  if (config.epochs != there.epochs) {
    settings.on_message("epochs is " + std::to_string(config.epochs) + ", it was " +
                        std::to_string(there.epochs) + ": " + learning_rate_from_here(config));
  }
  const std::string rounding =
      ": from here on the last bits may differ from an uninterrupted run's";
  if (config.device != there.device) {
    settings.on_message("device is " + config.device + ", it was " + there.device + rounding);
  } else if (config.threads != there.threads) {
    settings.on_message("threads is " + std::to_string(config.threads) + ", it was " +
                        std::to_string(there.threads) + rounding);
  }
}

/// Where a run begins, as the first rank tells the others.
enum class Beginning : std::uint8_t { Nowhere, WithItsParts, AtCheckpoint };

void tell_all(Beginning beginning, Communicator& ranks) {
  ranks.broadcast({torch::full({1}, static_cast<std::int64_t>(beginning), torch::kInt64)},
                  /*root=*/0);
}

Beginning told(Communicator& ranks) {
  const auto answer = torch::zeros({1}, torch::kInt64);
  ranks.broadcast({answer}, /*root=*/0);
  return static_cast<Beginning>(answer.item<std::int64_t>());
}

/// What the first rank begins with becomes what all begin with.
void hand_out(std::optional<CheckpointStore::Loaded>& newest, Model& model, Communicator& ranks) {
  if (newest) {
    tell_all(Beginning::AtCheckpoint, ranks);
    share_tensor_file(newest->checkpoint, ranks);
  } else {
    tell_all(Beginning::WithItsParts, ranks);
    share_parameters(model, ranks);
  }
}

/// On all ranks at a time, which must have the same data.
std::unique_ptr<RunParts> make_parts(const RunConfig& config, const RunSettings& settings) {
  auto& ranks = *settings.ranks;
  set_up_libtorch(config);
  auto parts =
      std::make_unique<RunParts>(config, settings.workers, settings.ranks, settings.image_work);
  if (ranks.size() > 1) {
    check_same_on_all_ranks(ranks, "its data", parts->data_description());
    check_same_on_all_ranks(ranks, "the pixels of its data", parts->pixels_description());
  }
  return parts;
}

}  // namespace

TrainingRun::TrainingRun(RunConfig config, fs::path folder, RunSettings settings)
    : config_(std::move(config)), folder_(std::move(folder)), settings_(std::move(settings)) {
  config_.resolve();
  TORCH_CHECK_VALUE(settings_.checkpoint_every >= 0, "checkpoint_every is ",
                    settings_.checkpoint_every, ", expected ≥ 0");
  TORCH_CHECK_VALUE(
      settings_.keep_checkpoints >= 0 && settings_.keep_checkpoints <= kMostCheckpoints,
      "keep_checkpoints is ", settings_.keep_checkpoints, ", expected 0 to ", kMostCheckpoints);
  TORCH_CHECK_VALUE(settings_.workers >= 0 && settings_.workers <= kMostWorkers, "workers is ",
                    settings_.workers, ", expected 0 to ", kMostWorkers);
  const auto& work = settings_.image_work;
  TORCH_CHECK_VALUE(work == "cpu" || work == "gpu" || work == "nvjpeg", "image_work is '", work,
                    "', expected cpu, gpu or nvjpeg");
  TORCH_CHECK_VALUE(settings_.stop_after_epoch >= 0, "stop_after_epoch is ",
                    settings_.stop_after_epoch, ", expected ≥ 0");
}

RunResult TrainingRun::run(TrainingCallback& callback) {
  check_same_run(config_, *settings_.ranks);
  check_same_settings(settings_, *settings_.ranks);
  return settings_.ranks->is_first() ? lead(callback) : follow();
}

RunResult TrainingRun::lead(TrainingCallback& callback) {
  auto& ranks = *settings_.ranks;
  // A folder that cannot be used is found before the work of making the parts, and a part that cannot
  // be made before there is a folder.
  std::optional<RunFolder> folder;
  if (!is_unused(folder_)) folder.emplace(folder_, config_, settings_);
  const CheckpointStore store(folder_);
  if (folder && folder->finished()) {
    if (!asks_for_more(config_, *folder->begun_as())) {
      store.keep_newest(settings_.keep_checkpoints);
      tell_all(Beginning::Nowhere, ranks);
      return {RunResult::Status::AlreadyFinished, 0, {}};
    }
    TORCH_CHECK(store.has_any(), "adaact: the run in ", folder_.string(),
                " is finished and has no checkpoint to go on from: it was told to keep none "
                "(--keep-checkpoints 0)");
  }
  tell_all(Beginning::WithItsParts, ranks);
  std::unique_lock<std::mutex> set_up(set_up_mutex());
  const auto parts = make_parts(config_, settings_);
  const bool begun = folder && store.has_any();
  if (!begun && !config_.weights.empty()) load_initial_weights(*parts->model, config_, settings_);
  BestEpoch best;
  Trainer trainer(*parts->model, *parts->optimizer, parts->train_loader, parts->test_loader,
                  trainer_options(config_, settings_, *parts, best));
  if (!folder) folder.emplace(folder_, config_, settings_);
  auto newest = store.load_newest(settings_.on_message);
  const auto journal = restore_or_begin(newest, *parts, trainer);
  if (config_.patience > 0 || settings_.save_best) {
    best = BestEpoch(folder_ / kMetricsFile, journal.metrics_bytes);
  }
  if (folder->finished() && trainer.finished()) {
    tell_all(Beginning::Nowhere, ranks);
    return {RunResult::Status::AlreadyFinished, 0, ending_of(config_, best, trainer)};
  }
  hand_out(newest, *parts->model, ranks);
  if (folder->begun_as()) tell_of_changes(config_, *folder->begun_as(), settings_);
  if (settings_.save_best && best.has_any() && !fs::exists(folder->best_file())) {
    settings_.on_message("best.safetensors begins with the first epoch that is better than the " +
                         best.text() + ", whose weights were not kept");
  }
  folder->go_on_as(config_, settings_, trainer.state().epoch);
  folder->add_environment(config_.device);
  RunInProgress run({config_, settings_, *parts, trainer, best, *folder}, journal);
  set_up.unlock();
  return run.run(callback);
}

/// Trains as the first rank does, and leaves everything that is written to it.
RunResult TrainingRun::follow() {
  auto& ranks = *settings_.ranks;
  const RunResult nothing_to_do{RunResult::Status::AlreadyFinished, 0, {}};
  if (told(ranks) == Beginning::Nowhere) return nothing_to_do;
  const auto parts = make_parts(config_, settings_);
  const BestEpoch of_no_interest;
  Trainer trainer(*parts->model, *parts->optimizer, parts->train_loader, parts->test_loader,
                  trainer_options(config_, settings_, *parts, of_no_interest));
  switch (told(ranks)) {
    case Beginning::Nowhere:
      return nothing_to_do;
    case Beginning::AtCheckpoint: {
      CheckpointStore::Loaded newest{0, "the checkpoint that rank 0 sent", {}};
      share_tensor_file(newest.checkpoint, ranks);
      newest.step = read_run_state(newest.checkpoint, newest.source).trainer.step;
      restore_or_begin(newest, *parts, trainer);
      break;
    }
    case Beginning::WithItsParts:
      share_parameters(*parts->model, ranks);
      break;
  }
  const InterruptGuard interrupts;
  if (trainer.run() && test_in_detail(config_, *parts, trainer.state(), ranks)) {
    return {RunResult::Status::Finished, 0, {}};
  }
  return {RunResult::Status::Interrupted, signal_of_all(InterruptGuard::received(), ranks), {}};
}

}  // namespace adaact
