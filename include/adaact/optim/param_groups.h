#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

namespace adaact {

struct DecaySplit {
  std::vector<torch::Tensor> decay;
  std::vector<torch::Tensor> no_decay;
};

/// The usual exemption from weight decay: everything of at most one dimension (biases,
/// normalisation) and class, distillation or position tokens, told by the last part of their name.
DecaySplit split_for_weight_decay(torch::nn::Module& module);

/// Parameter groups with the given options, those exempt without weight decay; empty ones left out:
///   adaact::AdaAct optimizer(*model, adaact::no_decay_groups(*model, options), options);
template <typename Options>
std::vector<torch::optim::OptimizerParamGroup> no_decay_groups(torch::nn::Module& module,
                                                               const Options& options) {
  auto split = split_for_weight_decay(module);
  auto without_decay = options;
  without_decay.weight_decay(0.0);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  if (!split.decay.empty()) {
    groups.emplace_back(std::move(split.decay), std::make_unique<Options>(options));
  }
  if (!split.no_decay.empty()) {
    groups.emplace_back(std::move(split.no_decay), std::make_unique<Options>(without_decay));
  }
  return groups;
}

}  // namespace adaact
