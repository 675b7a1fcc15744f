#pragma once

// The loss of a classifier on a GPU, in one kernel with its gradient and the number of right answers.

#include <torch/types.h>

namespace adaact {

struct CrossEntropy {
  torch::Tensor loss;      // () float32, float64 for float64
  torch::Tensor hits;      // () kLong
  torch::Tensor gradient;  // of the loss with respect to the logits, in their dtype
};

/// Σ over the rows of logits (B, K) / divisor, for labels (B) kLong; both have elements. A hit is a row whose argmax()
/// is its label: the first of equal maxima, and what is not a number comes before every number. A label outside
/// [0, K) makes the loss and its row's gradient NaN, so that an optimizer rejects the step. Equal inputs give
/// equal bits.
CrossEntropy cross_entropy_cuda(const torch::Tensor& logits, const torch::Tensor& labels,
                                double label_smoothing, double divisor);

}  // namespace adaact
