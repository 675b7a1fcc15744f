// The state of every optimizer, taken over by one of its kind and stepped with.

#include <map>
#include <memory>

#include <adaact/optim/named_state.h>
#include <adaact/optim/registry.h>
#include <torch/torch.h>

#include "fuzz/fuzz_targets.h"
#include "fuzz/tensor_file_mutator.h"

namespace adaact::fuzz {
namespace {

/// A tiny model with an optimizer that has taken two steps.
class SteppedOptimizer {
 public:
  SteppedOptimizer(const std::string& name, const std::string& options)
      : optimizer_(make_optimizer(name, *model_, options)),
        state_(dynamic_cast<HasNamedState&>(*optimizer_)) {
    for (int i = 0; i < 2; ++i) step();
    first_state_ = state_.export_state();
    first_bytes_ = bytes();
    for (const auto& parameter : model_->parameters()) weights_.push_back(parameter.clone());
  }

  std::string name() const { return first_state_.optimizer; }
  const std::string& first_bytes() const { return first_bytes_; }

  /// Either all of a state is taken over, or nothing.
  void take_over(const OptimizerState& state) {
    try {
      state_.import_state(state, kInputName);
    } catch (...) {
      require(bytes() == first_bytes_, "a state that was refused has changed the optimizer");
      throw;
    }
    bytes();
    try {
      step();
    } catch (const c10::Error&) {
      // Numbers that are not finite can come of numbers that are; the next step says so.
    }
    go_back();
  }

 private:
  std::string bytes() const { return state_.export_state().to_file().to_bytes(); }

  void step() {
    optimizer_->step([&] {
      optimizer_->zero_grad();
      auto loss = model_->forward(torch::ones({2, 3})).square().sum();
      loss.backward();
      return loss;
    });
  }

  void go_back() {
    const torch::NoGradGuard no_grad;
    state_.import_state(first_state_, "the first state");
    auto parameters = model_->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(weights_[i]);
  }

  torch::nn::Linear model_{3, 2};
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  HasNamedState& state_;
  OptimizerState first_state_;
  std::string first_bytes_;
  std::vector<torch::Tensor> weights_;
};

using Optimizers = std::map<std::string, std::unique_ptr<SteppedOptimizer>>;

/// One optimizer of each kind, by the name that a state gives.
Optimizers& stepped_optimizers() {
  static Optimizers all = [] {
    torch::manual_seed(0);
    Optimizers optimizers;
    const auto add = [&](const std::string& name, const std::string& options) {
      auto optimizer = std::make_unique<SteppedOptimizer>(name, options);
      optimizers.emplace(optimizer->name(), std::move(optimizer));
    };
    for (const auto& name : optimizer_names()) add(name, "{}");
    return optimizers;
  }();
  return all;
}

void read_optimizer_state(const std::string& bytes) {
  const auto file = TensorFile::from_bytes(bytes, TensorFile::Checksum::Required, kInputName);
  const auto state = OptimizerState::from_file(file, kInputName);
  auto& optimizers = stepped_optimizers();
  const auto found = optimizers.find(state.optimizer);
  (found == optimizers.end() ? optimizers.begin() : found)->second->take_over(state);
}

std::vector<Seed> optimizer_state_seeds() {
  std::vector<Seed> seeds;
  for (const auto& [name, optimizer] : stepped_optimizers()) {
    auto file_name = name;
    for (auto& letter : file_name) {
      if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
    }
    seeds.push_back({file_name, optimizer->first_bytes()});
  }
  return seeds;
}

}  // namespace

FuzzTarget optimizer_state_target() {
  return {"optimizer_state", read_optimizer_state, optimizer_state_seeds, mutate_tensor_file};
}

}  // namespace adaact::fuzz
