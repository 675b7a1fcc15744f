#include <algorithm>
#include <vector>

#include <adaact/moments/moments.h>

#include "kernels/sum_dtype.h"
#include "moments/patch_windows.h"

namespace adaact {
namespace {

/// Patches of a few samples at a time: enough rows for an efficient product, little enough memory
/// to disappear beside the activations. On a GPU, where every product costs a launch, that is more.
constexpr std::int64_t kPatchBytesOnCpu = std::int64_t{8} << 20;
constexpr std::int64_t kPatchBytesOnGpu = std::int64_t{256} << 20;

/// What a bias adds to the sums (g, n + 1, n + 1): Σ a and the number of rows as last column and row.
void add_ones(const torch::Tensor& sum, const torch::Tensor& row_sum, std::int64_t rows) {
  const auto n = row_sum.size(1);
  sum.narrow(1, 0, n).select(2, n).add_(row_sum);
  sum.select(1, n).narrow(1, 0, n).add_(row_sum);
  sum.select(1, n).select(1, n).add_(rows);
}

/// Adds Σ a aᵀ, and with a bias what it adds.
void add_products(const torch::Tensor& sum, const torch::Tensor& rows, bool with_bias) {
  const auto n = rows.size(2);
  sum.narrow(1, 0, n).narrow(2, 0, n).baddbmm_(rows.transpose(1, 2), rows);
  if (with_bias) add_ones(sum, rows.sum(1), rows.size(1));
}

/// The same for a convolution, as the gradient of its weight for an output gradient that is the
/// patches themselves: Σ patch[i] · input under offset j. oneDNN does that several times faster than
/// a product of patch matrices, and whatever BLAS there is.
void add_convolution_products(const torch::Tensor& sum, const torch::Tensor& x,
                              const Geometry& geometry, bool with_bias) {
  const auto [windows, padded] = patch_windows(x, geometry);
  const auto groups = geometry.groups;
  const auto n = geometry.features(x);
  std::vector<std::int64_t> image{x.size(0), groups * n};
  const auto output = windows.sizes().slice(static_cast<std::size_t>(2 + geometry.spatial_dims()));
  image.insert(image.end(), output.begin(), output.end());
  const auto patches = windows.reshape(image).contiguous();

  std::vector<std::int64_t> weight_shape{groups * n, x.size(1) / groups};
  weight_shape.insert(weight_shape.end(), geometry.kernel.begin(), geometry.kernel.end());
  const std::vector<std::int64_t> no_padding(geometry.kernel.size(), 0);
  const auto gradients = at::convolution_backward(
      patches, padded, torch::empty(weight_shape, x.options()), at::OptionalIntArrayRef(),
      geometry.stride, no_padding, geometry.dilation, /*transposed=*/false,
      /*output_padding=*/no_padding, groups, {false, true, false});
  sum.narrow(1, 0, n).narrow(2, 0, n).add_(std::get<1>(gradients).view({groups, n, n}));
  if (!with_bias) return;
  const auto row_sum = patches.view({x.size(0), groups, n, -1}).sum(at::IntArrayRef{0, 3});
  add_ones(sum, row_sum, x.size(0) * geometry.positions(x));
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
  const auto most_bytes = x.is_cuda() ? kPatchBytesOnGpu : kPatchBytesOnCpu;
  const auto chunk =
      std::clamp<std::int64_t>(most_bytes / sample_bytes, 1, std::max<std::int64_t>(samples, 1));
  const bool by_convolution =
      !geometry.is_linear() && x.device().is_cpu() && options.dtype() == torch::kFloat32;
  for (std::int64_t begin = 0; begin < samples; begin += chunk) {
    const auto part = x.narrow(0, begin, std::min(chunk, samples - begin)).to(options.dtype());
    if (by_convolution) {
      add_convolution_products(sum, part, geometry, with_bias);
    } else {
      add_products(sum, patch_matrix(part, geometry), with_bias);  // rows (g, N·P, n)
    }
  }
  return {sum, samples * positions};
}

}  // namespace adaact
