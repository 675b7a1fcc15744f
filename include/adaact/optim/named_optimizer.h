#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/step_algorithm.h>
#include <torch/optim/optimizer.h>

namespace adaact {

class StateCodec;

/// What every optimizer of this library is: one of LibTorch's that knows its parameters by name,
/// rejects a step as a whole where a value is not finite, and whose state survives.
class NamedOptimizer : public torch::optim::Optimizer, public HasNamedState, public StepAlgorithm {
 public:
  ~NamedOptimizer() override;

  /// Throws NonFiniteError, or an error that names a parameter with a sparse gradient; in each case
  /// nothing has changed.
  torch::Tensor step(LossClosure closure = nullptr) override;

  /// Also checks the options and that the parameters belong to the model.
  void add_param_group(const torch::optim::OptimizerParamGroup& param_group);

  /// Steps taken, those rejected not counted.
  std::int64_t steps() const noexcept;
  /// Steps rejected under NonFinitePolicy::Skip.
  std::int64_t skipped_steps() const noexcept;

  OptimizerState export_state() const override;
  void import_state(const OptimizerState& state, const std::string& source) override;

  /// LibTorch's archives (torch::save) hold the same named state.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 protected:
  NamedOptimizer(LayerMap model, std::unique_ptr<torch::optim::OptimizerOptions> defaults,
                 const StateCodec& codec);
  NamedOptimizer(NamedOptimizer&&) noexcept;

  /// To be called at the end of a constructor. Without groups there is one of all parameters.
  void add_param_groups(std::vector<torch::optim::OptimizerParamGroup> param_groups);

  /// "AdaAct", for messages.
  std::string label() const;
  const LayerMap& model() const noexcept;
  const NamedParameter& parameter(std::size_t index) const { return model().parameters()[index]; }
  /// Indices into model().parameters() of everything in a group, each once.
  const std::vector<std::size_t>& managed() const noexcept;
  bool is_managed(std::size_t index) const;
  /// The options of the parameter group that this parameter is in.
  const torch::optim::OptimizerOptions& group_options(std::size_t index) const;
  std::int64_t group_of(std::size_t index) const;
  /// The parameters among managed() that this step has a gradient for.
  std::vector<std::size_t> trained() const;
  bool is_trained(std::size_t index) const;
  std::vector<torch::Tensor> tensors(const std::vector<std::size_t>& indices) const;
  std::vector<torch::Tensor> gradients(const std::vector<std::size_t>& indices) const;

  StepParts& step_parts() noexcept override { return *parts_; }

  // An algorithm overrides those of the functions that follow in which it has something to do.
  std::shared_ptr<const StepStatistics> measure() override;
  NonFinitePolicy non_finite_policy() const override;
  virtual void on_state_loaded() {}

 private:
  std::unique_ptr<StepParts> parts_;
};

}  // namespace adaact
