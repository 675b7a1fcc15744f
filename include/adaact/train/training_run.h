#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <adaact/train/run_config.h>
#include <adaact/train/trainer.h>

namespace adaact {

/// How a run is carried out; none of it changes what it computes. config.json has all of it but `resume`, `ranks` and
/// what hears of messages.
struct RunSettings {
  bool resume = false;
  std::int64_t checkpoint_every = 0;  // steps; 0: at the end of each epoch
  std::int64_t keep_checkpoints = 1;  // of a finished run; while it runs two at least
  bool save_best = false;             // best.safetensors
  std::int64_t workers = 1;           // threads that prepare data
  std::int64_t update_norm_every = 50;
  bool graph = true;  // on a GPU: steps in CUDA graphs where possible
  // On a GPU, who makes images that are more than cropped and flipped: "cpu"; "gpu", of what the CPU has decoded and
  // scaled; or "nvjpeg", where the GPU does that, too.
  std::string image_work = "cpu";
  bool activation_variances = false;  // in the records of epochs
  /// Ends the run after so many epochs, if it has more, as if it were interrupted by the signal 0; resumed
  /// it goes on. 0: to the end.
  std::int64_t stop_after_epoch = 0;
  /// Who carries it out together, each rank with a TrainingRun of its own. What is computed does not depend on how many
  /// they are, but for batch normalisation without RunConfig::sync_batchnorm. Only the first knows the folder.
  std::shared_ptr<Communicator> ranks = single_process();
  /// Hears of what a user should know: a damaged checkpoint, a replaced head.
  std::function<void(const std::string&)> on_message = [](const std::string&) {};

  /// Those of the run whose config.json this is, for TrainingRun to check; the defaults where an earlier
  /// version wrote it.
  static RunSettings read(const std::filesystem::path& config_file);
  /// read() for the text of such a file; errors call it `source`.
  static RunSettings from_json(const std::string& text, const std::string& source);
};

struct RunResult {
  enum class Status : std::uint8_t { Finished, AlreadyFinished, Interrupted };
  Status status = Status::Finished;
  int signal = 0;  // that interrupted it; 0: RunSettings::stop_after_epoch did
  std::string
      ending;  // of a finished run: why it ended before its last epoch; empty where it did not
};

/// A training run in a folder of its own:
///
///   config.json            what it computes, and how it is carried out
///   environment.json       versions and machines, an entry for each time that it was started
///   metrics.jsonl          a line for each step, one for each epoch, and one if it diverged
///   events.out.tfevents.*  the same for TensorBoard
///   checkpoint.*           the last two; RunSettings::keep_checkpoints once it is finished
///   best.safetensors       the model of the epoch with the best test top-1, if asked for
///   test_details.json      what the test says of each class, with the images most confidently wrong
///   model.safetensors      the result, with the names of the classes
///
/// Killed at any instant it loses at most the work since its last checkpoint, and resumed it computes
/// what it would have computed uninterrupted, to the last bit: on the CPU always, on a GPU where
/// RunConfig::deterministic asks for it. Several may run at once, each on a thread of its own, if they
/// agree in precision, `deterministic` and `threads`, which are settings of the process, and none draws
/// random numbers while it trains (drop_path): LibTorch's generator is everybody's.
class TrainingRun {
 public:
  /// Without `resume` the folder must not exist, or be empty; with it, it may hold a run, finished or not,
  /// whose configuration differs from this one in what may change: obstacles_to_going_on() are an error.
  /// A finished run goes on where this one asks for more epochs, or for more patience; its model is then
  /// kept as model.after-N-epochs.safetensors.
  TrainingRun(RunConfig config, std::filesystem::path folder, RunSettings settings = {});

  /// SIGINT and SIGTERM end it after the step that is being taken, with a checkpoint. So does the
  /// optimizer's NonFiniteError, without one: it is thrown on, and the folder tells of it.
  RunResult run(TrainingCallback& callback);

 private:
  RunResult lead(TrainingCallback& callback);
  RunResult follow();

  RunConfig config_;
  std::filesystem::path folder_;
  RunSettings settings_;
};

}  // namespace adaact
