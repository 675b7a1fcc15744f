#pragma once

#include <cstdint>

#include <adaact/observe/geometry.h>
#include <torch/types.h>

namespace adaact {

/// A sum over the rows of a layer's patch matrix and how many rows that were. Sums of several
/// micro-batches add up to the sum of the whole batch; only a step divides.
struct Moment {
  torch::Tensor sum;  // float32, or float64 for float64 inputs
  std::int64_t count = 0;

  torch::Tensor mean() const { return sum / static_cast<double>(count); }
};

// Symbols: a (N·P, n) rows of the patch matrix, N samples, P output positions, n features of one
// group, g groups. For linear layers P = g = 1.

/// Σ a_ij² over rows i: (g, n). Picks the implementation by device.
Moment second_moment(const torch::Tensor& input, const Geometry& geometry);

/// The oracle: builds the patch matrix.
Moment second_moment_reference(const torch::Tensor& input, const Geometry& geometry);

/// Device-independent tensor operations on Σ_b x², without the patch matrix.
Moment second_moment_tensor(const torch::Tensor& input, const Geometry& geometry);

/// One vectorised, threaded pass over the input with one sample's worth of scratch. The result does
/// not depend on the number of threads.
Moment second_moment_cpu(const torch::Tensor& input, const Geometry& geometry);

/// One deterministic pass over an input on a GPU. A build without CUDA throws an error that says so.
Moment second_moment_cuda(const torch::Tensor& input, const Geometry& geometry);

/// Σ ã ãᵀ: (g, n, n), or (g, n+1, n+1) with a last input that is always 1. The patch matrix is
/// built for a few samples at a time.
Moment covariance(const torch::Tensor& input, const Geometry& geometry, bool with_bias);

/// The rows of the patch matrix, (g, N·P, n), in the input's dtype; of a convolution a transposed view.
torch::Tensor patch_matrix(const torch::Tensor& input, const Geometry& geometry);

}  // namespace adaact
