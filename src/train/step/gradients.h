#pragma once

// The gradients of a model, all parameters together.

#include <vector>

#include <torch/nn/module.h>

#include "kernels/each_once.h"
#include "kernels/global_norm.h"

namespace adaact {

/// Parameters that have no gradient are left out.
inline std::vector<torch::Tensor> model_gradients(const torch::nn::Module& model) {
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : each_once(model.parameters())) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

/// Scales them so that their norm together is at most `largest`; returns what it was.
inline double clip_gradients(const torch::nn::Module& model, double largest) {
  const auto gradients = model_gradients(model);
  const auto norm = global_norm(gradients);
  if (norm > largest) {
    for (const auto& gradient : gradients) gradient.mul_(largest / norm);
  }
  return norm;
}

}  // namespace adaact
