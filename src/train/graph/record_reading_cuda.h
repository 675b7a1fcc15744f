#pragma once

#include <torch/types.h>

namespace adaact {

/// Writes what a step was like to row `next` of `readings`, (rows, 3) float64: loss, right answers and norm of the
/// gradient. Then `next`, (1) kLong, is one more. Beyond the last row nothing is written.
void record_reading_cuda(const torch::Tensor& loss, const torch::Tensor& correct,
                         const torch::Tensor& gradient_norm, const torch::Tensor& readings,
                         const torch::Tensor& next);

}  // namespace adaact
