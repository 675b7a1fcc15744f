#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <adaact/data/loader.h>
#include <adaact/models/model.h>
#include <adaact/optim/schedules.h>
#include <adaact/ranks/communicator.h>
#include <adaact/train/averaged_weights.h>
#include <adaact/train/loss.h>
#include <adaact/train/metrics.h>
#include <torch/optim/optimizer.h>

namespace adaact {

class Trainer;

/// Is told what happens while a Trainer trains. What it throws ends the training.
class TrainingCallback {
 public:
  virtual ~TrainingCallback() = default;
  virtual void on_start(const Trainer& /*trainer*/) {}
  virtual void on_step(const Trainer& /*trainer*/, const StepMetrics& /*metrics*/) {}
  virtual void on_epoch(const Trainer& /*trainer*/, const EpochMetrics& /*metrics*/) {}
};

struct TrainerOptions {
  std::int64_t epochs = 1;
  std::int64_t accumulation = 1;                               // batches a step
  double clip_norm = std::numeric_limits<double>::infinity();  // of all gradients together
  Loss loss = Loss::CrossEntropy;
  double label_smoothing = 0.0;
  /// Of a moving average of the weights, which evaluations then take in their place; 0: there is none.
  double ema_decay = 0.0;
  bool bf16 = false;  // autocast
  torch::Device device = torch::kCPU;
  Schedule schedule = constant_schedule();  // in steps
  std::int64_t update_norm_every = 50;      // steps; it costs a copy of the parameters
  bool channels_last = false;               // of the images; the model's weights are the caller's
  /// Who trains it together: every rank has a trainer with the same options, and loaders that give its part of each
  /// batch (LoaderOptions::part). Steps, metrics and evaluations are then those of all.
  std::shared_ptr<Communicator> ranks = single_process();
  /// Batch normalisations take the statistics of all ranks' images, not of the rank's own.
  bool sync_batchnorm = false;
  /// On a GPU: whole steps in CUDA graphs, and the data in its memory where they fit and are no more than cropped and
  /// flipped. Callbacks then hear of several steps at once; at multiples of `state_every` steps and at the end of an
  /// epoch the model and the optimizer are as they were left by the step that is told of. Of the optimizer's options only
  /// the learning rate may change while it runs.
  bool graph = false;
  std::int64_t state_every = 0;
  std::int64_t stop_after_epoch = 0;  // run() returns false after so many; 0: it does not
  bool activation_variances =
      false;  // EpochMetrics has them; they cost a pass over all activations
  /// Asked between two steps, or every few of them with a graph, and between two batches of an
  /// evaluation.
  std::function<bool()> should_stop = [] { return false; };
  /// Asked before each epoch: true ends the training there, as its last epoch would.
  std::function<bool()> is_enough = [] { return false; };
};

/// Where training stands between two steps: with the model, the optimizer and LibTorch's random
/// generator, all that is needed to go on as if it had never stopped.
struct TrainerState {
  std::int64_t step = 0;   // steps taken
  std::int64_t epoch = 0;  // of the next step
  std::int64_t batch = 0;  // of the epoch, that the next step begins with
  double seconds = 0.0;    // of training
  // Sums and findings of the epoch so far.
  double epoch_seconds = 0.0;
  double loss_sum = 0.0;
  std::int64_t correct = 0;
  std::int64_t images = 0;
  SecondMoments second_moments;           // once its last step is taken
  std::vector<double> activation_totals;  // as of multiples of `state_every` steps and when stopped
  AveragedWeights average;  // with `ema_decay`: the trainer's own tensors, which steps change
};

/// Trains a model, evaluating it after each epoch:
///
///   adaact::Trainer trainer(*model, *optimizer, train_loader, test_loader, options);
///   trainer.add_callback(progress);
///   trainer.run();
///
/// Keeps references to its parts. Files are TrainingRun's business.
class Trainer {
 public:
  Trainer(Model& model, torch::optim::Optimizer& optimizer, Loader& train_data, Loader& test_data,
          TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Callbacks are told in the order in which they were added.
  void add_callback(TrainingCallback& callback);

  /// Trains to the end of the last epoch and returns true, or until should_stop() and returns
  /// false; a further call then goes on.
  bool run();

  /// Why TrainerOptions::graph cannot be set for these; empty where it can.
  static std::string obstacle_to_graph(const torch::optim::Optimizer& optimizer,
                                       const Loader& train_data, const TrainerOptions& options);

  const Model& model() const noexcept;
  const Loader& train_data() const noexcept;
  const Loader& test_data() const noexcept;

  std::int64_t steps_per_epoch() const;
  std::int64_t steps() const;  // in all
  /// What a trainer of these data would have. The last step of an epoch may have fewer batches than the others.
  static std::int64_t steps_per_epoch(const Loader& train_data, std::int64_t accumulation);

  const TrainerState& state() const noexcept;
  /// Whether run() would take no step.
  bool finished() const;
  /// Goes on from another state; model and optimizer must be the ones of that state. One that training
  /// cannot have come to is an error.
  void set_state(const TrainerState& state);
  /// "'batch' is 99, expected 0 to 20, …" of a state that this training cannot come to; empty where it can.
  std::string problem_with(const TrainerState& state) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaact
