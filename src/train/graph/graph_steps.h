#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <adaact/data/loader.h>
#include <adaact/models/model.h>
#include <adaact/train/metrics.h>
#include <torch/optim/optimizer.h>

namespace adaact {

/// What a step was like.
struct StepReading {
  double loss = 0.0;
  std::int64_t correct = 0;
  double gradient_norm = 0.0;
};

/// Training steps in CUDA graphs: batch, forward, observation, loss, backward, and where the optimizer can,
/// update and the check for values that are not finite. FOOF, KFAC and AdaAct's full covariance, which
/// decide from step to step, have a second graph for what is the same in all updates. Only in builds
/// with CUDA. Works on the current stream, which must not be the default one.
class GraphSteps {
 public:
  struct Options {
    double label_smoothing = 0.0;
    bool bf16 = false;
    bool channels_last = false;
    torch::Device device = torch::kCUDA;
  };

  /// Steps that may be enqueued before they are read.
  static constexpr std::int64_t kMostUnread = 256;

  GraphSteps(Model& model, torch::optim::Optimizer& optimizer, const Loader& data,
             const Options& options);
  ~GraphSteps();
  GraphSteps(const GraphSteps&) = delete;
  GraphSteps& operator=(const GraphSteps&) = delete;

  /// Why this optimizer's steps cannot be captured; empty where they can.
  static std::string obstacle(const torch::optim::Optimizer& optimizer);

  void start(std::int64_t epoch, std::int64_t first_batch);
  /// Whether the host need not look at every step.
  bool updates_are_captured() const;
  /// Enqueues the next step of the epoch with the learning rates that the optimizer has now. Where
  /// updates are not captured it throws what the optimizer's step() throws.
  void take_step();
  /// Waits for the steps enqueued so far.
  std::vector<StepReading> read();
  /// Brings the optimizer's counts up to date. Throws NonFiniteError where a step was rejected and the
  /// optimizer's policy is to throw.
  void settle();
  /// Of the last step of an epoch, once it was read.
  SecondMoments second_moments() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaact
