#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/non_finite.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace adaact {

/// LibTorch's own optimizer, its arithmetic untouched, with what all optimizers here have: state
/// under names and a policy for gradients that are not finite.
///
///   adaact::SGD optimizer(*model, torch::optim::SGDOptions(0.1).momentum(0.9));
template <typename Base, typename BaseOptions>
class LibTorchOptimizer : public Base, public HasNamedState {
 public:
  using typename Base::LossClosure;

  /// All parameters of the model in one group.
  LibTorchOptimizer(LayerMap model, const BaseOptions& defaults,
                    NonFinitePolicy non_finite_policy = NonFinitePolicy::Throw);
  /// Groups of the model's parameters; a group without options takes the defaults.
  LibTorchOptimizer(LayerMap model, std::vector<torch::optim::OptimizerParamGroup> param_groups,
                    const BaseOptions& defaults,
                    NonFinitePolicy non_finite_policy = NonFinitePolicy::Throw);

  torch::Tensor step(LossClosure closure = nullptr) override;

  /// Steps rejected under NonFinitePolicy::Skip.
  std::int64_t skipped_steps() const noexcept { return skipped_steps_; }

  OptimizerState export_state() const override;
  void import_state(const OptimizerState& state, const std::string& source) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  LayerMap model_;
  NonFinitePolicy non_finite_policy_;
  std::int64_t skipped_steps_ = 0;
};

using SGD = LibTorchOptimizer<torch::optim::SGD, torch::optim::SGDOptions>;
using Adam = LibTorchOptimizer<torch::optim::Adam, torch::optim::AdamOptions>;
using AdamW = LibTorchOptimizer<torch::optim::AdamW, torch::optim::AdamWOptions>;

extern template class LibTorchOptimizer<torch::optim::SGD, torch::optim::SGDOptions>;
extern template class LibTorchOptimizer<torch::optim::Adam, torch::optim::AdamOptions>;
extern template class LibTorchOptimizer<torch::optim::AdamW, torch::optim::AdamWOptions>;

}  // namespace adaact
