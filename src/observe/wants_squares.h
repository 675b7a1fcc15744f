#pragma once

#include <torch/types.h>

namespace adaact {

/// Whether an observer that knows this parameter is listening, and its listener takes sums of squares that come with
/// an input.
bool has_listener_for_squares(const torch::Tensor& parameter);

}  // namespace adaact
