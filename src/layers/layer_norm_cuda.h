#pragma once

// Layer normalisation of rows, one with the addition before it, on a GPU. A stream of rows (R, C) in float32 or
// float64 meets branches and goes out to layers in a dtype that may be narrower.

#include <cstdint>

#include <torch/types.h>

#include "layers/branch.h"

namespace adaact {

/// Rows (R, C) as sums. Branches have the output's dtype; each may have a bias (C).
struct SummedRows {
  torch::Tensor x;
  Branch unwritten, branch;  // added in this order
};

struct NormalisedRows {
  torch::Tensor stream;                   // what was summed, less `unwritten`
  Branch unwritten;                       // where one branch was added; the sum with two is written
  torch::Tensor output;                   // γ (sum − μ)/√(σ² + ε) + β
  torch::Tensor mean, inverse_deviation;  // (R)
  torch::Tensor squares;  // (parts, C), where asked for: rows that add up to Σ output², as stored
};

NormalisedRows layer_norm_forward_cuda(const SummedRows& rows, const torch::Tensor& weight,
                                       const torch::Tensor& bias, double eps,
                                       torch::ScalarType output_dtype, bool sum_squares);

struct LayerNormGradients {
  torch::Tensor x;       // of x, and of the sum
  torch::Tensor branch;  // the same in the branch's dtype
  torch::Tensor branch_bias;
  torch::Tensor weight, bias;
};

/// What was added before the normalisation and takes a gradient.
enum class Added : std::uint8_t { Nothing, Branch, BranchAndBias };

/// `stream_gradient` is that of the sum; it may be undefined.
LayerNormGradients layer_norm_backward_cuda(const NormalisedRows& rows, const torch::Tensor& weight,
                                            const torch::Tensor& output_gradient,
                                            const torch::Tensor& stream_gradient, Added added);

/// Whether rows of so many channels are among those that these functions take.
bool has_layer_norm_kernel(std::int64_t channels, torch::ScalarType stream);

}  // namespace adaact
