#include <algorithm>

#include <adaact/moments/moments.h>

#include "moments/sum_dtype.h"

namespace adaact {
namespace {

/// Patches of a few samples at a time: enough rows for an efficient product, little enough memory
/// to disappear beside the activations.
constexpr std::int64_t kPatchBytes = std::int64_t{8} << 20;

torch::Tensor with_ones_column(const torch::Tensor& rows) {
  return torch::cat({rows, torch::ones({rows.size(0), rows.size(1), 1}, rows.options())}, 2);
}

}  // namespace

Moment covariance(const torch::Tensor& input, const Geometry& geometry, bool with_bias) {
  const auto x = geometry.batched(input);
  const auto samples = x.size(0);
  const auto positions = geometry.positions(x);
  const auto n = geometry.features(x) + (with_bias ? 1 : 0);
  const auto options = x.options().dtype(sum_dtype(x));

  auto sum = torch::zeros({geometry.groups, n, n}, options);
  const auto sample_bytes =
      geometry.groups * positions * n * static_cast<std::int64_t>(sum.element_size());
  const auto chunk =
      std::clamp<std::int64_t>(kPatchBytes / sample_bytes, 1, std::max<std::int64_t>(samples, 1));
  for (std::int64_t begin = 0; begin < samples; begin += chunk) {
    const auto part = x.narrow(0, begin, std::min(chunk, samples - begin)).to(options.dtype());
    auto rows = patch_matrix(part, geometry);  // (g, rows, n)
    if (with_bias) rows = with_ones_column(rows);
    sum.baddbmm_(rows.transpose(1, 2), rows);
  }
  return {sum, samples * positions};
}

}  // namespace adaact
