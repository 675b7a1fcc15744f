#pragma once

#include <vector>

#include <adaact/moments/moments.h>

namespace adaact {

/// A layer's input on a GPU and how the layer reads it.
struct MomentInput {
  torch::Tensor input;
  Geometry geometry;
};

/// second_moment() of many inputs in a few launches, however many there are (two where all are of
/// one dtype on one device). Each input is read once. Equal inputs give equal bits, whatever else is
/// in the list. The sums of one device are views of one tensor. Nothing here waits for the device,
/// so a CUDA graph can capture it.
std::vector<Moment> second_moments_cuda(const std::vector<MomentInput>& inputs);

}  // namespace adaact
