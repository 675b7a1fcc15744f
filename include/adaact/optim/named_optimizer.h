#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/non_finite.h>
#include <torch/optim/optimizer.h>

namespace adaact {

class StateCodec;

/// What every optimizer of this library is: one of LibTorch's that knows its parameters by name,
/// rejects a step as a whole where a value is not finite, and whose state survives.
class NamedOptimizer : public torch::optim::Optimizer, public HasNamedState {
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
  std::int64_t skipped_steps() const noexcept { return skipped_steps_; }

  OptimizerState export_state() const override;
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
  /// What is not finite beside gradients, or nothing.
  virtual std::string find_other_non_finite() const { return {}; }
  /// The step itself. What can fail must do so before anything changes.
  virtual void update() = 0;
  /// After a step was taken.
  virtual void on_step_end() {}
  virtual void on_state_loaded() {}

 private:
  void index_parameters();
  std::string find_non_finite() const;

  LayerMap model_;
  const StateCodec* codec_;
  std::vector<std::size_t> managed_;
  std::vector<std::size_t> group_of_;  // per parameter of the model; kNotFound: in no group
  std::int64_t steps_ = 0;
  std::int64_t skipped_steps_ = 0;
};

}  // namespace adaact
