#pragma once

#include <torch/types.h>

namespace adaact {

/// True if no element is infinite or not a number.
bool all_finite(const torch::Tensor& tensor);

}  // namespace adaact
