#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/step_algorithm.h>
#include <torch/optim/optimizer.h>

namespace adaact {

class DeviceSession;
struct DeviceStep;
class StateCodec;

/// How much of a step the host has a part in.
enum class HostWork : std::uint8_t {
  Nothing,     // measure() and apply() may follow each other unseen
  Decides,     // between the two it decides, with the statistics before it
  Everything,  // nothing of the step can be recorded and replayed
};

/// Who finds out whether a step is finite, and counts it.
enum class Verdict : std::uint8_t {
  Host,    // decide() waits for the answer; a step that is rejected ends there
  Device,  // a flag on the GPU gates apply(); the host learns of it in settle()
};

/// Carries out the steps of an optimizer, part by part. step() is the four parts in a row with the host's
/// verdict; whoever captures CUDA graphs takes them one by one. One graph, where the host does nothing:
///
///   record:   passes; parts.measure(Verdict::Device); parts.apply();
///   a step:   parts.send_learning_rates(); replay;
///   read:     parts.settle();
///
/// Two, where it decides:
///
///   record:   passes; parts.measure(Verdict::Host); measured = parts.measured();  (generation_of_verdict())
///   a step:   replay; parts.resume(measured); parts.decide();
///             if (parts.accepted()) { record or replay parts.apply(); }  parts.settle();
///
/// What is recorded must have run before, holds as long as generation() is the same, and wants gradients
/// for the same parameters every time. Of the options only the learning rate may change.
class StepParts {
 public:
  /// Null for an optimizer that is none of this library's, and for SAM.
  static StepParts* of(torch::optim::Optimizer& optimizer);
  static const StepParts* of(const torch::optim::Optimizer& optimizer);

  StepParts(torch::optim::Optimizer& optimizer, StepAlgorithm& algorithm, LayerMap model,
            const StateCodec& codec);
  ~StepParts();
  /// To be called when the optimizer was moved to another place.
  void rebind(torch::optim::Optimizer& optimizer, StepAlgorithm& algorithm);

  torch::Tensor step(const torch::optim::Optimizer::LossClosure& closure);

  HostWork host_work() const noexcept { return host_work_; }
  /// Which layers the next pass is observed in, by parameter of the model, where that differs from step to
  /// step. Each combination wants a graph of its own.
  std::vector<bool> layers_to_observe() const {
    return layers_to_observe_ ? layers_to_observe_() : std::vector<bool>();
  }
  /// Changes when apply() comes to work with other memory or numbers than before. 0 until the host has seen
  /// a step since the optimizer was made or its state loaded: until then apply() may make state.
  std::int64_t generation() const noexcept { return has_taken_step_ ? version_ : 0; }
  /// Changes when measure() comes to leave its verdict in other memory than before.
  std::int64_t generation_of_verdict() const noexcept { return sessions_; }

  /// Gradients and observations become this step's statistics. Waits for no GPU.
  void measure(Verdict verdict);
  /// Throws NonFiniteError, or rejects the step and says so in accepted(), where it is not finite; then
  /// does what only the host can do.
  void decide();
  bool accepted() const noexcept { return accepted_; }
  /// Changes state and parameters. After a rejection it does nothing.
  void apply();
  /// Brings the counts on the host up to date, without which state must not be saved. With the device's
  /// verdict waits for it, and throws NonFiniteError where a step was rejected and the policy is to throw.
  void settle();

  /// With the device's verdict: the groups' learning rates become those of the steps that follow on the current
  /// stream.
  void send_learning_rates();

  /// What measure() has left, on memory that a replay of it fills anew.
  struct Measured {
    std::vector<torch::Tensor> gradients;  // by parameter of the model
    std::shared_ptr<const StepStatistics> statistics;
  };
  const Measured& measured() const noexcept { return measured_; }
  /// To be called after a replay: what is given are the gradients and statistics of the step.
  void resume(const Measured& measured);

  // What follows is for the algorithm.

  const StateCodec& codec() const noexcept { return *codec_; }
  const LayerMap& model() const noexcept { return model_; }
  /// Indices into model().parameters() of everything in a group, each once.
  const std::vector<std::size_t>& managed() const noexcept { return managed_; }
  /// The group of a parameter of the model; nothing where it is in none.
  const std::optional<std::size_t>& group_of(std::size_t index) const { return group_of_[index]; }
  bool is_trained(std::size_t index) const;
  /// The parameters among managed() that have a gradient and may change.
  std::vector<std::size_t> trained() const;
  std::int64_t steps() const noexcept { return steps_; }
  std::int64_t skipped_steps() const noexcept { return skipped_steps_; }
  /// Reads the groups anew, or throws and leaves everything as it was.
  void index_parameters();
  /// The host has no work in a step unless it is said here.
  void set_host_work(HostWork host_work) noexcept { host_work_ = host_work; }
  /// Before the host waits for a GPU that other ranks may keep waiting: see Communicator::wait_for_stream().
  void set_wait_for_stream(std::function<void()> wait) { wait_for_stream_ = std::move(wait); }
  void set_layers_to_observe(std::function<std::vector<bool>()> layers) {
    layers_to_observe_ = std::move(layers);
  }

  /// Where apply() finds learning rates and counts: on the device if `step` is not null, and then `counted`
  /// of the steps that it has accepted are in the host's counts already.
  struct Numbers {
    const DeviceStep* step = nullptr;
    std::int64_t counted = 0;
  };
  Numbers numbers() const;
  /// (1) int64 on the device, where a kernel notes the parameter that it changed out of proportion; undefined
  /// where the device does not look at the step.
  torch::Tensor outsized() const;

  /// For a path that takes the step's numbers from the host: throws, with what a step on the device needs,
  /// where the device alone has them.
  void check_seen_by_host(const char* needed) const;

  /// To be called in decide(), with all memory that apply() reads and writes, but for gradients, statistics and what
  /// it makes itself. Where that has changed, so has generation().
  void works_on(std::vector<const void*> memory);
  /// To be called in decide() where apply() takes numbers of this step from the host, and cannot be replayed.
  void changes_with_every_step() noexcept { ++version_; }

  OptimizerState export_state() const;
  void import_state(const OptimizerState& state, const std::string& source);

 private:
  void check_parameters() const;
  void remember_shapes();
  std::vector<Checked> everything_checked() const;
  void begin_session(const std::vector<torch::Tensor>& tensors, Verdict verdict);
  void reject(std::size_t culprit, const char* consequence) const;
  void settle_steps_of_device();
  void report_outsized();
  void forget_step();

  torch::optim::Optimizer* optimizer_;
  StepAlgorithm* algorithm_;
  const StateCodec* codec_;
  LayerMap model_;
  std::vector<std::size_t> managed_;
  std::vector<std::optional<std::size_t>> group_of_;
  std::vector<std::optional<std::vector<std::int64_t>>> shapes_;  // that states were made for
  HostWork host_work_ = HostWork::Nothing;
  std::function<void()> wait_for_stream_ = [] {};
  std::function<std::vector<bool>()> layers_to_observe_;

  // The step under way.
  Verdict verdict_ = Verdict::Host;
  Measured measured_;
  std::vector<Checked> checked_;
  bool is_in_session_ = false;  // the session looks at what is checked
  bool accepted_ = false;
  std::unique_ptr<DeviceSession> session_;  // once everything was on one GPU
  std::int64_t sessions_ = 1;

  std::int64_t steps_ = 0;
  std::int64_t skipped_steps_ = 0;
  std::int64_t version_ = 1;
  bool has_taken_step_ = false;
  std::vector<const void*> memory_;  // of works_on()
};

}  // namespace adaact
