#pragma once

// Layer normalisation with the residual addition before it. On a GPU one kernel forward and two backward, and
// under autocast the output is in the dtype of the layers that read it.

#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include "layers/branch.h"

namespace adaact {

struct NormalisedStream {
  ResidualStream stream;  // x + branch
  torch::Tensor output;   // norm(stream)
};

NormalisedStream add_layer_norm(torch::nn::LayerNorm& norm, const ResidualStream& x,
                                const Branch& branch);

}  // namespace adaact
