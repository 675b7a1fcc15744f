#pragma once

// Batch normalisation of a training pass on a GPU, one with what follows it. Tensors are (N, C, H, W), all of
// one layout and dtype; what is of one channel is (C) in float32, or float64 where they are.

#include <torch/types.h>

namespace adaact {

/// What a normalisation keeps from batch to batch.
struct RunningStatistics {
  torch::Tensor mean, variance;
  torch::Tensor batches;  // () kLong: how many it has seen
  double momentum = 0.1;
};

struct NormalisedBatch {
  torch::Tensor output;
  torch::Tensor mean;
  torch::Tensor inverse_deviation;
  torch::Tensor squares;  // as offer_squares() takes them, where they were asked for and can be had
};

/// γ (x − μ)/√(σ² + ε) + β, plus the residual where there is one, and of that max(0, ·) where so asked.
/// Brings the running statistics up to date.
NormalisedBatch batch_norm_forward_cuda(const torch::Tensor& x, const torch::Tensor& residual,
                                        const torch::Tensor& weight, const torch::Tensor& bias,
                                        const RunningStatistics& running, double eps, bool relu,
                                        bool with_squares);

/// What the backward pass has of the forward one.
struct BatchNormPass {
  torch::Tensor x;
  torch::Tensor output;  // with ReLU and a residual; otherwise x tells where it is positive
  torch::Tensor mean, inverse_deviation;
  torch::Tensor weight, bias;
  bool relu = false;
  bool has_residual = false;
};

struct BatchNormGradients {
  torch::Tensor x;
  torch::Tensor residual;
  torch::Tensor weight, bias;
};

/// The output's gradient is the sum of two where there is a second. Where `sum` is given, the gradient of x is added
/// to it in its place. A gradient that may be overwritten becomes one of the results.
BatchNormGradients batch_norm_backward_cuda(const BatchNormPass& pass,
                                            const torch::Tensor& gradient,
                                            const torch::Tensor& second_gradient,
                                            const torch::Tensor& sum, bool may_overwrite_gradient);

}  // namespace adaact
