#pragma once

#include <vector>

#include <torch/types.h>

namespace adaact {

/// The numbers of one step, for the rows of one weight that share an input.
struct AdaActScalars {
  double lr = 0.0;                // η
  double beta1 = 0.0;             // β₁
  double weight_decay = 0.0;      // λ
  double bias_correction1 = 1.0;  // 1 − β₁ᵗ, t the updates of this M
};

/// Line 12 of Algorithm 1: V̂ᵖ + ε, one number per input feature.
torch::Tensor adaact_denominator(const torch::Tensor& v_hat, double power, double eps);

// Lines 9 to 15 of Algorithm 1, in place, for θ, M and G of shape (rows, n) and a denominator of
// shape (S, n): the rows are S runs of equal length, each with its own input. θ may be narrower than
// M, which is float32 or float64.

/// Plain tensor operations: any device, any strides; the oracle.
void adaact_update_reference(const torch::Tensor& theta, const torch::Tensor& m,
                             const torch::Tensor& g, const torch::Tensor& denominator,
                             const AdaActScalars& step);

/// The same in one pass over contiguous CPU tensors.
void adaact_update_cpu(const torch::Tensor& theta, const torch::Tensor& m, const torch::Tensor& g,
                       const torch::Tensor& denominator, const AdaActScalars& step);

/// Picks one of the two.
void adaact_update(const torch::Tensor& theta, const torch::Tensor& m, const torch::Tensor& g,
                   const torch::Tensor& denominator, const AdaActScalars& step);

/// What the authors' code does with parameters that have no observed input: θ ← θ − η(g + λθ).
void plain_gradient_update(const std::vector<torch::Tensor>& theta,
                           const std::vector<torch::Tensor>& g, const AdaActScalars& step);

}  // namespace adaact
