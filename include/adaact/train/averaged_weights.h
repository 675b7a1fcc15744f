#pragma once

#include <map>
#include <string>

#include <torch/types.h>

namespace adaact {

/// A moving average of a model's weights, by the names of its parameters and of its buffers of real numbers.
using AveragedWeights = std::map<std::string, torch::Tensor>;

}  // namespace adaact
