#pragma once

#include <adaact/observe/geometry.h>
#include <torch/types.h>

namespace adaact {

/// A convolution's patches, one channel for each entry of a patch.
struct PatchImage {
  torch::Tensor patches;  // (N, g·n, output…), contiguous
  torch::Tensor padded;   // the input they were taken from, with its padding
};

PatchImage patch_image(const torch::Tensor& input, const Geometry& geometry);

}  // namespace adaact
