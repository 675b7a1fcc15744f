#pragma once

#include <cstdint>

namespace adaact {

/// An optimizer whose steps the host need not look at: learning rates, counts and whether a step was
/// finite are in the memory of a GPU, so that a CUDA graph can capture a step and replay it.
///
///   optimizer.step();                // of the usual kind: makes the state
///   optimizer.send_learning_rates();
///   graph.capture_begin();  …  optimizer.enqueue_step();  graph.capture_end();
///   for (…) graph.replay();
///   optimizer.read_steps();
///
/// A step that is not finite changes nothing, as always, but the steps after it are taken; the host
/// learns of it in read_steps(). Of the options only the learning rate may change between replays, and
/// every step must have gradients for the same parameters; after step() or import_state() a graph is
/// to be captured anew. Only in builds with CUDA.
class TakesDeviceSteps {
 public:
  virtual ~TakesDeviceSteps() = default;

  /// Whether the algorithm, with its options, can at all.
  virtual bool can_take_device_steps() const = 0;

  /// Enqueues a step with the gradients and observations that are there, on the current stream.
  virtual void enqueue_step() = 0;
  /// The learning rates of the groups become those of the steps that follow on the current stream.
  virtual void send_learning_rates() = 0;
  /// Waits for the steps so far and brings the counts on the host up to date, without which state must
  /// not be saved. Throws NonFiniteError where one was rejected and the policy is to throw.
  virtual void read_steps() = 0;

  /// Steps rejected under NonFinitePolicy::Skip, as far as the host knows.
  virtual std::int64_t skipped_steps() const noexcept = 0;
};

}  // namespace adaact
