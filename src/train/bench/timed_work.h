#pragma once

#include <functional>
#include <vector>

#include <torch/types.h>

namespace adaact {

/// The time from the beginning of the work to its end: on a GPU by events on the current stream, elsewhere by
/// the clock.
double milliseconds_of(torch::Device device, const std::function<void()>& work);

/// The value in the middle, of an even number the upper one of two. There must be a value.
double median(std::vector<double> values);

}  // namespace adaact
