#pragma once

#include <cstdint>
#include <vector>

#include <adaact/moments/moments.h>

namespace adaact {

/// A layer's input on a GPU and how the layer reads it. `squares` are what was offered with the input, if anything,
/// and are used where still_to_read() lets them. Where nothing is to be read, `count`, the number of patches, may
/// stand for the input.
struct MomentInput {
  torch::Tensor input;
  Geometry geometry;
  torch::Tensor squares = {};
  std::int64_t count = 0;
};

/// second_moment() of many inputs in a few launches, however many there are (two where all are of
/// one dtype on one device, two more where borders are read). Each input is read once at most. Equal
/// inputs give equal bits, whatever else is in the list. The sums of one device are views of one
/// tensor. Nothing here waits for the device, so a CUDA graph can capture it.
std::vector<Moment> second_moments_cuda(const std::vector<MomentInput>& inputs);

}  // namespace adaact
