#include <algorithm>
#include <numeric>
#include <vector>

#include <adaact/moments/moments.h>

#include "moments/patch_windows.h"

namespace adaact {

PatchWindows patch_windows(const torch::Tensor& input, const Geometry& geometry) {
  const auto x = geometry.batched(input);
  const auto dims = geometry.spatial_dims();
  std::vector<std::int64_t> padding;  // constant_pad_nd counts from the last dimension
  for (auto d = static_cast<std::size_t>(dims); d-- > 0;) {
    padding.push_back(geometry.padding_before[d]);
    padding.push_back(geometry.padding_after[d]);
  }
  const auto padded = at::constant_pad_nd(x, padding).contiguous();

  std::vector<std::int64_t> sizes{x.size(0), x.size(1)};
  std::vector<std::int64_t> strides{padded.stride(0), padded.stride(1)};
  for (std::int64_t d = 0; d < dims; ++d) {
    sizes.push_back(geometry.kernel[static_cast<std::size_t>(d)]);
    strides.push_back(geometry.dilation[static_cast<std::size_t>(d)] * padded.stride(d + 2));
  }
  for (std::int64_t d = 0; d < dims; ++d) {
    sizes.push_back(geometry.output_size(d, x.size(d + 2)));
    strides.push_back(geometry.stride[static_cast<std::size_t>(d)] * padded.stride(d + 2));
  }
  return {padded.as_strided(sizes, strides), padded};
}

torch::Tensor patch_matrix(const torch::Tensor& input, const Geometry& geometry) {
  const auto x = geometry.batched(input);
  if (geometry.is_linear()) return x.unsqueeze(0);
  const auto dims = geometry.spatial_dims();
  std::vector<std::int64_t> order(static_cast<std::size_t>(2 + 2 * dims));
  std::iota(order.begin(), order.end(), 0);
  // The samples between kernel and output: one copy, along the rows of images, writes all patches.
  std::rotate(order.begin(), order.begin() + 1, order.begin() + 2 + dims);
  return patch_windows(input, geometry)
      .windows
      .permute(order)  // (C, kernel…, N, output…)
      .reshape({geometry.groups, geometry.features(x), x.size(0) * geometry.positions(x)})
      .transpose(1, 2);
}

}  // namespace adaact
