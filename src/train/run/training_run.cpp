#include <adaact/train/training_run.h>

#include <mutex>
#include <string>
#include <utility>

#include <adaact/models/weights.h>
#include <adaact/optim/non_finite.h>
#include <adaact/train/evaluate.h>
#include <adaact/train/model_card.h>
#include <torch/torch.h>

#include "io/atomic_file.h"
#include "train/graph/set_up_mutex.h"
#include "train/run/checkpoint.h"
#include "train/run/checkpoint_store.h"
#include "train/run/interrupt.h"
#include "train/run/run_file_names.h"
#include "train/run/run_folder.h"
#include "train/run/run_journal.h"
#include "train/run/run_parts.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostWorkers = 256;

TrainerOptions trainer_options(const RunConfig& config, const RunSettings& settings,
                               const RunParts& parts) {
  TrainerOptions options;
  options.epochs = config.epochs;
  options.accumulation = config.accumulation;
  options.clip_norm = config.clip_norm;
  options.label_smoothing = config.label_smoothing;
  options.bf16 = config.precision == "bf16";
  options.device = torch::Device(config.device);
  options.schedule =
      build_schedule(config, Trainer::steps_per_epoch(parts.train_loader, config.accumulation));
  options.update_norm_every = settings.update_norm_every;
  options.channels_last = config.memory_format == "channels-last";
  options.state_every = settings.checkpoint_every;
  options.activation_variances = settings.activation_variances;
  options.should_stop = [] { return InterruptGuard::received() != 0; };
  if (settings.graph && options.device.is_cuda()) {
    const auto obstacle = Trainer::obstacle_to_graph(*parts.optimizer, parts.train_loader,
                                                     parts.test_loader, options);
    options.graph = obstacle.empty();
    if (!options.graph) settings.on_message("steps are not captured in a CUDA graph: " + obstacle);
  }
  return options;
}

/// A run while it runs: a trainer with its journal and its checkpoints.
class RunInProgress : public TrainingCallback {
 public:
  RunInProgress(const RunConfig& config, const RunSettings& settings, RunParts& parts,
                Trainer& trainer, const RunFolder& folder)
      : config_(config),
        settings_(settings),
        parts_(parts),
        trainer_(trainer),
        folder_(folder),
        data_(parts.data_description()),
        store_(folder.path()),
        journal_(folder.path(), restore_or_begin(), settings.on_message) {}

  RunResult run(TrainingCallback& callback) {
    const InterruptGuard interrupts;
    trainer_.add_callback(journal_);
    trainer_.add_callback(*this);
    trainer_.add_callback(callback);
    if (train() && save_test_details()) {
      save_model();
      return {RunResult::Status::Finished};
    }
    save();
    return {RunResult::Status::Interrupted, InterruptGuard::received()};
  }

  void on_step(const Trainer& trainer, const StepMetrics& /*metrics*/) override {
    const auto period = settings_.checkpoint_every;
    if (period > 0 && trainer.state().step % period == 0) save();
  }
  void on_epoch(const Trainer& /*trainer*/, const EpochMetrics& /*metrics*/) override {
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

  JournalSize restore_or_begin() {
    const auto newest = store_.load_newest(settings_.on_message);
    if (!newest) return {};
    const auto& source = newest->source;
    const auto state = read_run_state(newest->checkpoint, source);
    TORCH_CHECK(state.data == data_, "adaact: the data are not those of ", source, ": they were '",
                state.data, "', now they are '", data_, "'");
    const auto problem = trainer_.problem_with(state.trainer);
    TORCH_CHECK(problem.empty(), "adaact: ", source, ": the field ", problem);
    TORCH_CHECK(state.trainer.step == newest->step, "adaact: ", source, ": the field 'step' is ",
                state.trainer.step, ", expected ", newest->step, ", as the file is named");
    restore_checkpoint(newest->checkpoint, *parts_.model, *parts_.optimizer, source);
    trainer_.set_state(state.trainer);
    return state.journal;
  }

  void save() {
    const RunState state{trainer_.state(), journal_.flush(), data_};
    store_.save(state.trainer.step, make_checkpoint(state, *parts_.model, *parts_.optimizer));
  }

  /// What the test says in detail, before the model, whose being there says that nothing is missing. False
  /// if a signal came: then whoever goes on with the run does this again.
  bool save_test_details() {
    const torch::Device device(config_.device);
    std::unique_lock<std::mutex> set_up(set_up_mutex(), std::defer_lock);
    if (device.is_cuda()) set_up.lock();  // another run's capture would take it for its own
    const auto evaluation = evaluate_in_detail_unless(
        [] { return InterruptGuard::received() != 0; }, *parts_.model, parts_.test_loader, device,
        config_.precision == "bf16", config_.memory_format == "channels-last");
    if (!evaluation) return false;
    write_file_atomically(folder_.path() / kTestDetailsFile, evaluation->details.to_json());
    return true;
  }

  void save_model() {
    journal_.flush();
    const ModelCard card{config_.model, config_.batchnorm, parts_.train_data->info(),
                         config_.resize_size};
    save_weights(*parts_.model, folder_.model_file(), card.to_metadata());
  }

  const RunConfig& config_;
  const RunSettings& settings_;
  RunParts& parts_;
  Trainer& trainer_;
  const RunFolder& folder_;
  const std::string data_;
  CheckpointStore store_;
  RunJournal journal_;
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

}  // namespace

TrainingRun::TrainingRun(RunConfig config, fs::path folder, RunSettings settings)
    : config_(std::move(config)), folder_(std::move(folder)), settings_(std::move(settings)) {
  config_.resolve();
  TORCH_CHECK(settings_.checkpoint_every >= 0, "checkpoint_every is ", settings_.checkpoint_every,
              ", expected ≥ 0");
  TORCH_CHECK(settings_.workers >= 0 && settings_.workers <= kMostWorkers, "workers is ",
              settings_.workers, ", expected 0 to ", kMostWorkers);
}

RunResult TrainingRun::run(TrainingCallback& callback) {
  // A folder that cannot be used is found before the work of making the parts, and a part that cannot
  // be made before there is a folder.
  std::optional<RunFolder> folder;
  if (fs::exists(folder_)) folder.emplace(folder_, config_, settings_.resume);
  if (folder && folder->finished()) return {RunResult::Status::AlreadyFinished};
  std::unique_lock<std::mutex> set_up(set_up_mutex());
  set_up_libtorch(config_);
  RunParts parts(config_, settings_.workers);
  const bool begun = folder && CheckpointStore(folder_).has_any();
  if (!begun && !config_.weights.empty()) load_initial_weights(*parts.model, config_, settings_);
  Trainer trainer(*parts.model, *parts.optimizer, parts.train_loader, parts.test_loader,
                  trainer_options(config_, settings_, parts));
  if (!folder) folder.emplace(folder_, config_, settings_.resume);
  folder->add_environment(config_.device);
  RunInProgress run(config_, settings_, parts, trainer, *folder);
  set_up.unlock();
  return run.run(callback);
}

}  // namespace adaact
