#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <adaact/observe/observer.h>
#include <adaact/optim/named_optimizer.h>

namespace adaact {

struct ParameterCoverage {
  std::string name;
  bool observed = false;
  std::string reason;  // why, or why not
};

/// One line per parameter.
std::ostream& operator<<(std::ostream& out, const std::vector<ParameterCoverage>& coverage);

/// An optimizer that needs to see what flows through the layers of its model.
///
/// Statistics belong to steps: what is observed between two steps, in however many forward passes,
/// counts as one batch. zero_grad() leaves it alone. So a forward pass that belongs to no step must
/// not be observed: evaluate under torch::NoGradGuard, in evaluation mode, or in a
/// pause_observation().
///
/// step() also throws what went wrong in an observation since the last one. Whatever it throws, the
/// pending observations are dropped.
class ObservingOptimizer : public NamedOptimizer {
 public:
  ~ObservingOptimizer() override;

  /// Observation stops while the returned object lives.
  [[nodiscard]] ObservationPause pause_observation() const;
  /// Forgets what was observed since the last step.
  void discard_observations();
  /// Reports the input of a layer that no LibTorch operator shows, as Observer::observe. KFAC needs
  /// the layer's output too, before the backward pass.
  void observe(const torch::Tensor& weight, const torch::Tensor& input,
               const Geometry& geometry = Geometry::linear(), const torch::Tensor& output = {});

  /// A CUDA graph replays a pass without calling anybody, but fills the tensors that were observed when it
  /// was captured anew. At the end of such a capture this takes them over and returns what reports them
  /// once more, to be called after every replay.
  ///
  ///   graph.capture_begin();  …  report = optimizer.take_for_replay();  graph.capture_end();
  ///   for (…) { graph.replay(); report(); optimizer.step(); }
  virtual std::function<void()> take_for_replay() = 0;
  /// Which layers the next pass is observed in, by parameter, where that differs from step to step. Each
  /// combination wants a graph of its own.
  virtual std::vector<bool> layers_to_observe() const { return {}; }

  /// Told of the part of an update that is the same work on the same memory in every step, in which of
  /// the options only the learning rate may change. It has that work done: at once, or by a replay of
  /// what it recorded when it last was told of the same memory.
  using UpdateRunner = std::function<void(const std::function<void()>& work,
                                          const std::vector<const void*>& memory)>;
  /// For the steps that follow; an empty one has the work done at once. FOOF, KFAC and AdaAct's full
  /// covariance have such a part.
  void set_update_runner(UpdateRunner runner) { update_runner_ = std::move(runner); }

  /// For every parameter: does what was observed shape its update, and if not, why.
  std::vector<ParameterCoverage> coverage() const;

 protected:
  using NamedOptimizer::NamedOptimizer;
  ObservingOptimizer(ObservingOptimizer&&) noexcept;

  void start_observing(std::shared_ptr<Listener> listener);

  /// Takes over, or forgets, what the listener has gathered since the last step.
  virtual void take_observations() = 0;
  /// Without looking at it.
  virtual void drop_observations() { take_observations(); }
  /// Why this parameter's update follows what was observed; empty where it does not.
  virtual std::string why_observed(std::size_t index) const = 0;
  /// Why not, beyond what is known here; empty where nothing is.
  virtual std::string why_not_observed(std::size_t /*index*/) const { return {}; }

  /// The bias that can be one more input column of this weight: managed, trained, one number per
  /// row. kNotFound where there is none.
  std::size_t joint_bias(std::size_t weight) const;

  /// `memory`: all that the work reads and writes, but for what it makes itself.
  void run_update(const std::function<void()>& work, const std::vector<const void*>& memory) const {
    update_runner_ ? update_runner_(work, memory) : work();
  }

  /// The gradient of a layer's output is part of what is observed.
  virtual bool needs_output() const { return false; }

  void on_closure_failed() override;
  void on_step_begin() override;
  void on_step_end() override;
  void on_state_loaded() override;

 private:
  void warn_about_unseen_layers() const;

  std::unique_ptr<Observer> observer_;
  UpdateRunner update_runner_;
  bool first_step_done_ = false;
};

}  // namespace adaact
