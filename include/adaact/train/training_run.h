#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <adaact/train/run_config.h>
#include <adaact/train/trainer.h>

namespace adaact {

/// How a run is carried out; none of it changes what it computes.
struct RunSettings {
  bool resume = false;
  std::int64_t checkpoint_every = 0;  // steps; 0: at the end of each epoch
  std::int64_t workers = 1;           // threads that prepare data
  std::int64_t update_norm_every = 50;
  bool graph = true;                  // on a GPU: steps in CUDA graphs where possible
  bool activation_variances = false;  // in the records of epochs
  /// Hears of what a user should know: a damaged checkpoint, a replaced head.
  std::function<void(const std::string&)> on_message = [](const std::string&) {};
};

struct RunResult {
  enum class Status : std::uint8_t { Finished, AlreadyFinished, Interrupted };
  Status status = Status::Finished;
  int signal = 0;  // that interrupted it
};

/// A training run in a folder of its own:
///
///   config.json            what it computes
///   environment.json       versions and machines, an entry for each time that it was started
///   metrics.jsonl          a line for each step, one for each epoch, and one if it diverged
///   events.out.tfevents.*  the same for TensorBoard
///   checkpoint.*           the last two
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
  /// Without `resume` the folder must not exist; with it, it may hold a run of the same
  /// configuration, finished or not.
  TrainingRun(RunConfig config, std::filesystem::path folder, RunSettings settings = {});

  /// SIGINT and SIGTERM end it after the step that is being taken, with a checkpoint. So does the
  /// optimizer's NonFiniteError, without one: it is thrown on, and the folder tells of it.
  RunResult run(TrainingCallback& callback);

 private:
  RunConfig config_;
  std::filesystem::path folder_;
  RunSettings settings_;
};

}  // namespace adaact
