#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <adaact/optim/device_steps.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/non_finite.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace adaact {

class DeviceSession;

/// LibTorch's own optimizer, with what all optimizers here have: state under names and a policy for
/// gradients that are not finite. Its arithmetic is LibTorch's, on a GPU that of its fused operators.
///
///   adaact::SGD optimizer(*model, torch::optim::SGDOptions(0.1).momentum(0.9));
template <typename Base, typename BaseOptions>
class LibTorchOptimizer : public Base, public HasNamedState, public TakesDeviceSteps {
 public:
  using typename Base::LossClosure;

  /// All parameters of the model in one group.
  LibTorchOptimizer(LayerMap model, const BaseOptions& defaults,
                    NonFinitePolicy non_finite_policy = NonFinitePolicy::Throw);
  /// Groups of the model's parameters; a group without options takes the defaults.
  LibTorchOptimizer(LayerMap model, std::vector<torch::optim::OptimizerParamGroup> param_groups,
                    const BaseOptions& defaults,
                    NonFinitePolicy non_finite_policy = NonFinitePolicy::Throw);

  LibTorchOptimizer(LibTorchOptimizer&&) noexcept;
  ~LibTorchOptimizer() override;

  torch::Tensor step(LossClosure closure = nullptr) override;

  bool can_take_device_steps() const override;
  void enqueue_step() override;
  void send_learning_rates() override;
  void read_steps() override;

  /// Steps rejected under NonFinitePolicy::Skip.
  std::int64_t skipped_steps() const noexcept override { return skipped_steps_; }

  OptimizerState export_state() const override;
  void import_state(const OptimizerState& state, const std::string& source) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  void reject(const std::string& culprit, const std::string& consequence);

  LayerMap model_;
  NonFinitePolicy non_finite_policy_;
  std::int64_t skipped_steps_ = 0;
  std::unique_ptr<DeviceSession> device_session_;  // once send_learning_rates() was called
  std::vector<torch::Tensor> on_device_;           // parameters that its steps update
};

using SGD = LibTorchOptimizer<torch::optim::SGD, torch::optim::SGDOptions>;
using Adam = LibTorchOptimizer<torch::optim::Adam, torch::optim::AdamOptions>;
using AdamW = LibTorchOptimizer<torch::optim::AdamW, torch::optim::AdamWOptions>;

extern template class LibTorchOptimizer<torch::optim::SGD, torch::optim::SGDOptions>;
extern template class LibTorchOptimizer<torch::optim::Adam, torch::optim::AdamOptions>;
extern template class LibTorchOptimizer<torch::optim::AdamW, torch::optim::AdamWOptions>;

}  // namespace adaact
