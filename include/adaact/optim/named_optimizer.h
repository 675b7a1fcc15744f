#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <adaact/optim/device_steps.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/non_finite.h>
#include <torch/optim/optimizer.h>

namespace adaact {

class StateCodec;
class DeviceSession;
struct DeviceStep;

/// What every optimizer of this library is: one of LibTorch's that knows its parameters by name,
/// rejects a step as a whole where a value is not finite, and whose state survives.
class NamedOptimizer : public torch::optim::Optimizer,
                       public HasNamedState,
                       public TakesDeviceSteps {
 public:
  ~NamedOptimizer() override;

  /// Throws NonFiniteError, or an error that names a parameter with a sparse gradient; in each case
  /// nothing has changed.
  torch::Tensor step(LossClosure closure = nullptr) override;

  /// Also checks the options and that the parameters belong to the model.
  void add_param_group(const torch::optim::OptimizerParamGroup& param_group);

  /// Steps taken, those rejected not counted.
  std::int64_t steps() const noexcept { return steps_; }
  /// Steps rejected under NonFinitePolicy::Skip.
  std::int64_t skipped_steps() const noexcept override { return skipped_steps_; }

  /// AdaAct, Adan and LAMB with parameters on one GPU.
  bool can_take_device_steps() const override { return false; }
  void enqueue_step() override;
  void send_learning_rates() override;
  void read_steps() override;

  OptimizerState export_state() const override;
  /// Graphs that hold steps are to be captured anew: they know the memory of the state before.
  void import_state(const OptimizerState& state, const std::string& source) override;

  /// LibTorch's archives (torch::save) hold the same named state.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 protected:
  NamedOptimizer(LayerMap model, std::unique_ptr<torch::optim::OptimizerOptions> defaults,
                 const StateCodec& codec);
  NamedOptimizer(NamedOptimizer&&) noexcept;

  /// For the end of a constructor; no groups stand for one of all parameters.
  void add_param_groups(std::vector<torch::optim::OptimizerParamGroup> param_groups);

  /// "AdaAct", for messages.
  std::string label() const;
  const LayerMap& model() const noexcept { return model_; }
  const NamedParameter& parameter(std::size_t index) const { return model_.parameters()[index]; }
  /// Indices into model().parameters() of everything in a group, each once.
  const std::vector<std::size_t>& managed() const noexcept { return managed_; }
  bool is_managed(std::size_t index) const { return group_of_[index] != LayerMap::kNotFound; }
  const torch::optim::OptimizerOptions& group_options(std::size_t index) const;
  /// Its parameter group.
  std::int64_t group_of(std::size_t index) const {
    return static_cast<std::int64_t>(group_of_[index]);
  }
  /// Those of managed() that this step has a gradient for.
  std::vector<std::size_t> trained() const;
  bool is_trained(std::size_t index) const;
  std::vector<torch::Tensor> gradients(const std::vector<std::size_t>& indices) const;

  /// Most rules have no meaning for complex parameters.
  virtual bool takes_complex(const torch::optim::OptimizerOptions& /*options*/) const {
    return false;
  }
  /// The parameters in groups or their options may have changed.
  virtual void on_groups_indexed() {}
  /// The closure threw: there will be no step.
  virtual void on_closure_failed() {}
  /// Before anything is checked, accepted or not.
  virtual void on_step_begin() {}
  /// What must be finite beside gradients, each with what to say where it is not.
  using Checked = std::pair<torch::Tensor, std::string>;
  virtual std::vector<Checked> checked() const { return {}; }
  /// The step itself. What can fail must do so before anything changes.
  virtual void update() = 0;
  /// The same in a few launches on a GPU, without the counts in the states; false, and nothing has
  /// changed, where that is not possible. With a `step` its learning rates, counts and verdict come from
  /// there; `counted` of the steps that it has accepted are in the counts of the states already.
  virtual bool update_fused(const DeviceStep* /*step*/, std::int64_t /*counted*/) { return false; }
  /// These parameters have taken so many further steps by update_fused().
  virtual void count_fused_steps(const std::vector<std::size_t>& /*parameters*/,
                                 std::int64_t /*steps*/) {}
  /// After a step was taken.
  virtual void on_step_end() {}
  virtual void on_state_loaded() {}

 private:
  void index_parameters();
  void check_dense() const;
  std::string find_non_finite() const;
  void reject(const std::string& culprit, const std::string& consequence);

  LayerMap model_;
  const StateCodec* codec_;
  std::vector<std::size_t> managed_;
  std::vector<std::size_t> group_of_;  // per parameter of the model; kNotFound: in no group
  std::int64_t steps_ = 0;
  std::int64_t skipped_steps_ = 0;
  std::unique_ptr<DeviceSession> device_session_;  // once send_learning_rates() was called
  std::vector<std::size_t> on_device_;             // parameters that its steps update
};

}  // namespace adaact
