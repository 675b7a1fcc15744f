#pragma once

// Layer normalisation of rows, one with the addition before it, on a GPU. A stream of rows (R, C) in float32 or
// float64 meets branches and goes out to layers in a dtype that may be narrower.

#include <cstdint>

#include <torch/types.h>

namespace adaact {

struct NormalisedRows {
  torch::Tensor stream;  // x + branch + its bias; x itself where there is no branch
  torch::Tensor output;  // γ (stream − μ)/√(σ² + ε) + β
  torch::Tensor mean, inverse_deviation;  // (R)
};

/// The branch, where there is one, has the output's dtype; it may have a bias (C).
NormalisedRows layer_norm_forward_cuda(const torch::Tensor& x, const torch::Tensor& branch,
                                       const torch::Tensor& branch_bias,
                                       const torch::Tensor& weight, const torch::Tensor& bias,
                                       double eps, torch::ScalarType output_dtype);

struct LayerNormGradients {
  torch::Tensor x;       // of x, and of the stream
  torch::Tensor branch;  // the same in the branch's dtype
  torch::Tensor branch_bias;
  torch::Tensor weight, bias;
};

/// What was added before the normalisation.
enum class Added : std::uint8_t { Nothing, Branch, BranchAndBias };

/// Of the output's gradient and, where it is defined, of that of the stream.
LayerNormGradients layer_norm_backward_cuda(const NormalisedRows& rows, const torch::Tensor& weight,
                                            const torch::Tensor& output_gradient,
                                            const torch::Tensor& stream_gradient, Added added);

/// Whether rows of so many channels are among those that these functions take.
bool has_layer_norm_kernel(std::int64_t channels, torch::ScalarType stream);

}  // namespace adaact
