#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <torch/types.h>

namespace adaact {

/// True if no element is infinite or not a number.
bool all_finite(const torch::Tensor& tensor);

/// The first tensor, if any, of which that is not true. On a GPU it waits for each.
std::optional<std::size_t> first_non_finite(const std::vector<torch::Tensor>& tensors);

}  // namespace adaact
