#include <adaact/moments/moments.h>

#include "kernels/sum_dtype.h"
#include "moments/window_sums.h"

namespace adaact {

Moment second_moment(const torch::Tensor& input, const Geometry& geometry) {
  if (input.device().is_cpu()) return second_moment_cpu(input, geometry);
#ifdef ADAACT_WITH_CUDA
  if (input.is_cuda()) return second_moment_cuda(input, geometry);
#endif
  return second_moment_tensor(input, geometry);
}

Moment second_moment_reference(const torch::Tensor& input, const Geometry& geometry) {
  const auto rows = patch_matrix(input, geometry).to(sum_dtype(input));  // (g, N·P, n)
  return {rows.square().sum(1), rows.size(1)};
}

Moment second_moment_tensor(const torch::Tensor& input, const Geometry& geometry) {
  const auto x = geometry.batched(input);
  const auto squares = x.to(sum_dtype(input)).square().sum(0);  // S = Σ_b x²
  return {window_sums(squares, geometry), x.size(0) * geometry.positions(x)};
}

torch::Tensor window_sums(const torch::Tensor& squares, const Geometry& geometry) {
  if (geometry.is_linear()) return squares.unsqueeze(0);
  // Entry (c, offset) is the sum of S over the window that this offset of the kernel visits: the
  // column sums of the patch matrix of S.
  return patch_matrix(squares.unsqueeze(0), geometry).sum(1);
}

}  // namespace adaact
