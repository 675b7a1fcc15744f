#pragma once

// The gradients of a model, all parameters together.

#include <cmath>
#include <vector>

#include <torch/nn/module.h>

#include "kernels/clip_norm_cuda.h"
#include "kernels/each_once.h"
#include "kernels/global_norm.h"
#include "kernels/global_norm_cuda.h"

namespace adaact {

/// Parameters that have no gradient are left out.
inline std::vector<torch::Tensor> model_gradients(const torch::nn::Module& model) {
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : each_once(model.parameters())) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

/// clip_gradients() on a GPU, where the norm stays, (1) float64: nobody waits for it.
inline torch::Tensor clip_gradients_on_gpu(const torch::nn::Module& model, double largest) {
  const auto gradients = model_gradients(model);
  auto norm = global_norm_cuda(gradients);
  if (std::isfinite(largest)) clip_norm_cuda(gradients, norm, largest);
  return norm;
}

/// Scales them so that their norm together is at most `largest`; returns what it was. On a GPU a step in a CUDA graph
/// and one without are clipped by the same kernels, and so to the same bits.
inline double clip_gradients(const torch::nn::Module& model, double largest) {
  const auto gradients = model_gradients(model);
  if (!gradients.empty() && gradients[0].is_cuda()) {
    return clip_gradients_on_gpu(model, largest).item<double>();
  }
  const auto norm = global_norm(gradients);
  if (norm > largest) {
    for (const auto& gradient : gradients) gradient.mul_(largest / norm);
  }
  return norm;
}

}  // namespace adaact
