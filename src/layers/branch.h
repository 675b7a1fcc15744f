#pragma once

#include <torch/types.h>

namespace adaact {

/// What a residual network adds to its stream. Whoever adds it adds the bias of its last layer as well: a pass over
/// memory less.
struct Branch {
  torch::Tensor values;  // not defined: zero
  torch::Tensor bias;    // not defined: none, or part of the values

  torch::Tensor sum() const { return bias.defined() ? values + bias : values; }
};

/// The stream of a residual network: values + unwritten. A branch that is narrower than the stream takes less memory
/// than the sum with it, so a fused layer writes only every second sum. To autograd `values` are the sum: their
/// gradient is its gradient, and `unwritten` is a constant.
struct ResidualStream {
  torch::Tensor values;
  Branch unwritten;  // of no values: nothing

  torch::Tensor sum() const {
    return unwritten.values.defined() ? values + unwritten.sum() : values;
  }
};

}  // namespace adaact
