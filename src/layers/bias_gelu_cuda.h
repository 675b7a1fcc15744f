#pragma once

// GELU of rows (R, C) with a bias (C) added before, on a GPU.

#include <torch/types.h>

namespace adaact {

struct BiasGeluOutput {
  torch::Tensor output;   // (x + b) Φ(x + b) with the normal distribution function Φ
  torch::Tensor squares;  // (parts, C), where asked for: rows that add up to Σ output², as stored
};

/// The bias is float32, or float64 where x is.
BiasGeluOutput bias_gelu_forward_cuda(const torch::Tensor& x, const torch::Tensor& bias,
                                      bool sum_squares);

struct BiasGeluGradients {
  torch::Tensor x;
  torch::Tensor bias;
};
BiasGeluGradients bias_gelu_backward_cuda(const torch::Tensor& gradient, const torch::Tensor& x,
                                          const torch::Tensor& bias);

}  // namespace adaact
