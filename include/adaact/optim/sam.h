#pragma once

// SAM: P. Foret, A. Kleiner, H. Mobahi, B. Neyshabur, "Sharpness-Aware Minimization for Efficiently
// Improving Generalization", ICLR 2021; adaptive: J. Kwon et al., "ASAM", ICML 2021.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/non_finite.h>
#include <adaact/optim/observing_optimizer.h>
#include <adaact/optim/options.h>
#include <torch/optim/optimizer.h>

namespace adaact {

/// The learning rate of a group is that of the base optimizer's group, for schedulers too.
struct SamOptions : public JsonOptions<SamOptions> {
  SamOptions(double rho = 0.05);  // NOLINT(google-explicit-constructor): as LibTorch's options

  TORCH_ARG(double, rho) = 0.05;                                           // ρ
  TORCH_ARG(bool, adaptive) = false;                                       // e in units of θ
  TORCH_ARG(NonFinitePolicy, non_finite_policy) = NonFinitePolicy::Throw;  // the same in all groups

 public:
  double lr() const;
  SamOptions& lr(double lr);

 private:
  friend class Sam;
  torch::optim::OptimizerOptions& of_base() const;

  std::weak_ptr<torch::optim::Optimizer> base_;
  std::size_t group_ = 0;
};

extern template struct JsonOptions<SamOptions>;

/// Steps another optimizer with the gradient at the worst point nearby:
///
///   adaact::Sam optimizer(*model, std::make_unique<adaact::SGD>(*model, options));
///   optimizer.step([&] {
///     optimizer.zero_grad();
///     auto loss = …;
///     loss.backward();
///     return loss;
///   });
///
/// The closure runs twice. In the second pass the model's buffers, such as BatchNorm's running
/// statistics, and the base optimizer's activation statistics stay as the first pass left them.
///
/// On many ranks each pass of the closure leaves gradients of all ranks. The base optimizer shares its statistics.
class Sam : public torch::optim::Optimizer, public HasNamedState, public SharesStatistics {
 public:
  /// Base: any optimizer of this library or of LibTorch over parameters of the module, but for those
  /// that need a closure themselves (another Sam, LBFGS).
  Sam(torch::nn::Module& module, std::unique_ptr<torch::optim::Optimizer> base,
      const SamOptions& defaults = {});
  /// For what is no torch::nn::Module: buffers are what a forward pass may change.
  Sam(LayerMap model, std::vector<torch::Tensor> buffers,
      std::unique_ptr<torch::optim::Optimizer> base, const SamOptions& defaults = {});

  /// Returns the loss of the first pass. Where a gradient of either pass is not finite, throws
  /// NonFiniteError or skips the step; whatever is thrown, parameters are as they were before and
  /// the base's pending observations are dropped.
  torch::Tensor step(LossClosure closure = nullptr) override;

  /// Adds a group with options of the base's kind to the base.
  void add_param_group(const torch::optim::OptimizerParamGroup& param_group);

  /// After groups were added to the base: each has one here. step() does so too.
  void follow_base_groups();

  torch::optim::Optimizer& base() noexcept { return *base_; }
  const torch::optim::Optimizer& base() const noexcept { return *base_; }

  /// Steps rejected under NonFinitePolicy::Skip.
  std::int64_t skipped_steps() const noexcept { return skipped_steps_; }

  /// The base optimizer's state and SAM's options. Throws for a base whose state has no names: those
  /// of LibTorch other than SGD, Adam and AdamW.
  OptimizerState export_state() const override;
  void import_state(const OptimizerState& state, const std::string& source) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  void share_with(const std::shared_ptr<Communicator>& ranks, ShareFactors factors) override;
  void bind(SamOptions& options, std::size_t group) const;
  torch::Tensor take_step(const LossClosure& closure);
  bool rejects(const std::string& when);
  void reject(const std::string& why);
  void climb();
  const SamOptions& options_of(const torch::optim::OptimizerParamGroup& group) const;

  LayerMap model_;
  std::vector<torch::Tensor> buffers_;
  std::shared_ptr<torch::optim::Optimizer> base_;
  std::int64_t skipped_steps_ = 0;
};

}  // namespace adaact
