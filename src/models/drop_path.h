#pragma once

#include <torch/types.h>

namespace adaact {

/// Leaves a residual branch out for some samples of a batch, and scales the others so that its
/// expectation stays (Huang et al., https://arxiv.org/abs/1603.09382). The branch itself where
/// the rate is 0 or outside training. Of a BatchPart the samples are those that the whole batch would leave out.
torch::Tensor drop_path(const torch::Tensor& branch, double rate, bool training);

/// Rates grow linearly with depth: from 0 at the first block to `last` at the last.
double drop_path_rate(double last, int64_t block, int64_t blocks);

}  // namespace adaact
