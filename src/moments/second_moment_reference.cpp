// Second moments by tensor operations: the oracle, and what serves inputs that no kernel knows.

#include <adaact/moments/moments.h>

#include "kernels/sum_dtype.h"

namespace adaact {
namespace {

/// From S = Σ_b x², shaped like one sample, to the sums of second_moment(), (g, n).
torch::Tensor window_sums(const torch::Tensor& squares, const Geometry& geometry) {
  if (geometry.is_linear()) return squares.unsqueeze(0);
  // Entry (c, offset) is the sum of S over the window that this offset of the kernel visits: the
  // column sums of the patch matrix of S.
  return patch_matrix(squares.unsqueeze(0), geometry).sum(1);
}

}  // namespace

Moment second_moment_reference(const torch::Tensor& input, const Geometry& geometry) {
  const auto rows = patch_matrix(input, geometry).to(sum_dtype(input));  // (g, N·P, n)
  return {rows.square().sum(1), rows.size(1)};
}

Moment second_moment_tensor(const torch::Tensor& input, const Geometry& geometry) {
  const auto x = geometry.batched(input);
  const auto squares = x.to(sum_dtype(input)).square().sum(0);  // S = Σ_b x²
  return {window_sums(squares, geometry), x.size(0) * geometry.positions(x)};
}

}  // namespace adaact
