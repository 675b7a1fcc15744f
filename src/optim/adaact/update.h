#pragma once

// M_t, Ĝ_t and θ_t of Algorithm 1, on tensors of any device and as one pass over those of a CPU. The
// symbols are those of adaact.cpp; update_cuda.h has the same for a GPU.

#include <cstddef>
#include <optional>
#include <vector>

#include <adaact/optim/adaact.h>
#include <torch/types.h>

#include "optim/adaact/plan.h"
#include "optim/base/parameter_update.h"

namespace adaact {

/// The denominator of line 12: V̂ᵖ + ε, one number per input feature.
torch::Tensor adaact_denominator(const torch::Tensor& v_hat, double power, double eps);

/// The numbers of one step, for the rows of one weight that share an input.
struct AdaActScalars {
  double lr = 0.0;                // η
  double beta1 = 0.0;             // β₁
  double weight_decay = 0.0;      // λ
  double bias_correction1 = 1.0;  // 1 − β₁ᵗ, t the updates of this M
};

/// θ, M_t's storage and G_t of one parameter as matrices of so many rows.
struct MatrixUpdate {
  MatrixView theta;
  torch::Tensor m;
  torch::Tensor g;
};
MatrixUpdate matrices_of(const torch::Tensor& parameter, const AdaActParamState& state,
                         std::int64_t rows);

/// Line 9, in place: M_t = β₁ M_{t−1} + (1−β₁) G_t.
void average_gradient(const torch::Tensor& m, const torch::Tensor& g, double beta1);

// Lines 9 to 15, in place, for θ, M and G of shape (rows, n) and a denominator of shape (S, n): the rows
// are S runs of equal length, each with its own input. θ may be narrower than M, which is float32 or
// float64. They return whether an element changed out of proportion (outsized.h).

/// Plain tensor operations, for any device and any strides. Others are held against it in tests.
bool adaact_update_anywhere(const torch::Tensor& theta, const torch::Tensor& m,
                            const torch::Tensor& g, const torch::Tensor& denominator,
                            const AdaActScalars& step);

/// adaact_update_anywhere() in one pass over contiguous CPU tensors.
bool adaact_update_cpu(const torch::Tensor& theta, const torch::Tensor& m, const torch::Tensor& g,
                       const torch::Tensor& denominator, const AdaActScalars& step);

/// Takes adaact_update_cpu() where it can, else adaact_update_anywhere().
bool adaact_update(const torch::Tensor& theta, const torch::Tensor& m, const torch::Tensor& g,
                   const torch::Tensor& denominator, const AdaActScalars& step);

/// What the authors' code does with parameters that have no observed input: θ ← θ − η(g + λθ).
void plain_gradient_update(const std::vector<torch::Tensor>& theta,
                           const std::vector<torch::Tensor>& g, const AdaActScalars& step);

/// Carries out a plan but for the full covariance, on any device, one parameter after the other. Returns the
/// model's index of one that changed out of proportion.
std::optional<std::size_t> apply_plainly(const std::vector<PlannedUpdate>& plan);

}  // namespace adaact
