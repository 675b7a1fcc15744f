#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/step_algorithm.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace adaact {

/// LibTorch's own optimizer, with what all optimizers here have: state under names and a policy for
/// gradients that are not finite. Its arithmetic is LibTorch's, on a GPU that of its fused operators.
///
///   adaact::SGD optimizer(*model, torch::optim::SGDOptions(0.1).momentum(0.9));
template <typename Base, typename BaseOptions>
class LibTorchOptimizer : public Base, public HasNamedState, public StepAlgorithm {
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

  /// Steps taken, those rejected not counted.
  std::int64_t steps() const noexcept;
  /// Steps rejected under NonFinitePolicy::Skip.
  std::int64_t skipped_steps() const noexcept;

  NonFinitePolicy non_finite_policy() const override { return non_finite_policy_; }
  void set_non_finite_policy(NonFinitePolicy policy) noexcept { non_finite_policy_ = policy; }

  OptimizerState export_state() const override;
  void import_state(const OptimizerState& state, const std::string& source) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  std::shared_ptr<const StepStatistics> measure() override;
  void apply(const StepStatistics& statistics) override;
  void settle(std::int64_t steps) override;
  bool takes_sparse_gradients() const override {
    return std::is_same_v<Base, torch::optim::SGD>;  // LibTorch's others refuse one midway
  }
  StepParts& step_parts() noexcept override { return *parts_; }

  NonFinitePolicy non_finite_policy_;
  std::unique_ptr<StepParts> parts_;
  std::vector<torch::Tensor> updated_;  // parameters, by fused operators in the last step
};

using SGD = LibTorchOptimizer<torch::optim::SGD, torch::optim::SGDOptions>;
using Adam = LibTorchOptimizer<torch::optim::Adam, torch::optim::AdamOptions>;
using AdamW = LibTorchOptimizer<torch::optim::AdamW, torch::optim::AdamWOptions>;

extern template class LibTorchOptimizer<torch::optim::SGD, torch::optim::SGDOptions>;
extern template class LibTorchOptimizer<torch::optim::Adam, torch::optim::AdamOptions>;
extern template class LibTorchOptimizer<torch::optim::AdamW, torch::optim::AdamWOptions>;

}  // namespace adaact
