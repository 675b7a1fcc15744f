#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <adaact/data/loader.h>
#include <adaact/models/model.h>
#include <adaact/ranks/communicator.h>
#include <adaact/train/metrics.h>
#include <torch/optim/optimizer.h>

#include "train/step/classification_pass.h"

namespace adaact {

/// What is trained, and how its passes are computed. Engines keep the references.
struct TrainingTask {
  Model& model;
  torch::optim::Optimizer& optimizer;
  Loader& train_data;
  Loader& test_data;
  PassSettings passes;
  /// Who else trains it. The loaders then give this rank's part of each batch.
  std::shared_ptr<Communicator> ranks = single_process();
  bool sync_batchnorm = false;  // statistics of all ranks' images
};

/// What a step was like, with the model as it was before it.
struct StepReading {
  double loss = 0.0;
  std::int64_t correct = 0;
  double gradient_norm = 0.0;  // before clipping
  std::int64_t images = 0;     // of all ranks
  std::int64_t batches = 0;
  double wait_seconds = 0.0;  // for data
};

struct StepReadings {
  std::vector<StepReading> steps;
  /// The optimizer's NonFiniteError of the step after these, or null. Steps from that one on are left
  /// out; so is the last of all, because what it left is not what anybody may save.
  std::exception_ptr rejection;
};

/// Takes the steps of epochs:
///
///   engine.start(epoch, first_batch);
///   for (…) engine.take_step();  // at most engine.most_unread() times
///   readings = engine.read();
class StepEngine {
 public:
  virtual ~StepEngine() = default;

  /// Begins an epoch, or enters it at a later batch. Steps that were not read are forgotten.
  virtual void start(std::int64_t epoch, std::int64_t first_batch) = 0;
  /// How many steps may be taken before they must be read.
  virtual std::int64_t most_unread() const = 0;
  /// Takes the learning rates that the optimizer has now. The epoch must have a batch left. Throws what the
  /// optimizer's step() throws, unless it is for read() to tell.
  virtual void take_step() = 0;
  /// Waits for the steps since the last reading. The optimizer's counts are up to date after it.
  virtual StepReadings read() = 0;
  /// E[a²] of the layers' inputs in the last step of an epoch, once that was read. Where the optimizer makes several
  /// passes, the first one counts.
  virtual SecondMoments second_moments() const = 0;
  /// Evaluates the model on the test data. Returns nothing if stopped.
  virtual std::optional<Evaluation> evaluate(const std::function<bool()>& should_stop) = 0;
};

/// Step by step: on any device, with any optimizer, several batches a step, gradients clipped.
std::unique_ptr<StepEngine> make_eager_engine(const TrainingTask& task, std::int64_t accumulation,
                                              double clip_norm);

}  // namespace adaact
