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

}  // namespace adaact
