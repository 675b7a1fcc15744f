#pragma once

#include <adaact/observe/geometry.h>
#include <torch/types.h>

namespace adaact {

/// The windows of a convolution's input that its kernel sees.
struct PatchWindows {
  torch::Tensor windows;  // (N, C, kernel…, output…), a view of `padded`
  torch::Tensor padded;   // the input with its padding, contiguous
};

PatchWindows patch_windows(const torch::Tensor& input, const Geometry& geometry);

}  // namespace adaact
