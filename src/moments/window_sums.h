#pragma once

#include <adaact/moments/moments.h>

namespace adaact {

/// From S = Σ_b x², shaped like one sample, to the sums of second_moment(), (g, n), by tensor
/// operations on any device.
torch::Tensor window_sums(const torch::Tensor& squares, const Geometry& geometry);

}  // namespace adaact
