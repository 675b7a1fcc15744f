#pragma once

#include <functional>
#include <vector>

#include <torch/types.h>

namespace adaact {

/// From the beginning of the work to its end: on a GPU by events on the current stream, elsewhere by
/// the clock.
double milliseconds_of(torch::Device device, const std::function<void()>& work);

/// The upper one of two; there must be a value.
double median(std::vector<double> values);

}  // namespace adaact
