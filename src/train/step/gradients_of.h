#pragma once

#include <vector>

#include <torch/nn/module.h>

namespace adaact {

/// Those that are there.
inline std::vector<torch::Tensor> gradients_of(const torch::nn::Module& model) {
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : model.parameters()) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

}  // namespace adaact
