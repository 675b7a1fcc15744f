#include "moments/patch_image.h"

#include <vector>

#include <adaact/moments/moments.h>

namespace adaact {

PatchImage patch_image(const torch::Tensor& input, const Geometry& geometry) {
  const auto x = geometry.batched(input);
  const auto dims = geometry.spatial_dims();
  std::vector<std::int64_t> padding;  // constant_pad_nd counts from the last dimension
  for (auto d = static_cast<std::size_t>(dims); d-- > 0;) {
    padding.push_back(geometry.padding_before[d]);
    padding.push_back(geometry.padding_after[d]);
  }
  const auto padded = at::constant_pad_nd(x, padding).contiguous();

  // (N, C, kernel…, output…): every offset of the kernel sees a strided window of the input.
  std::vector<std::int64_t> sizes{x.size(0), x.size(1)};
  std::vector<std::int64_t> strides{padded.stride(0), padded.stride(1)};
  for (std::int64_t d = 0; d < dims; ++d) {
    sizes.push_back(geometry.kernel[static_cast<std::size_t>(d)]);
    strides.push_back(geometry.dilation[static_cast<std::size_t>(d)] * padded.stride(d + 2));
  }
  std::vector<std::int64_t> image{x.size(0), geometry.groups * geometry.features(x)};
  for (std::int64_t d = 0; d < dims; ++d) {
    sizes.push_back(geometry.output_size(d, x.size(d + 2)));
    strides.push_back(geometry.stride[static_cast<std::size_t>(d)] * padded.stride(d + 2));
    image.push_back(sizes.back());
  }
  return {padded.as_strided(sizes, strides).reshape(image).contiguous(), padded};
}

torch::Tensor patch_matrix(const torch::Tensor& input, const Geometry& geometry) {
  if (geometry.is_linear()) return geometry.batched(input).unsqueeze(0);
  const auto patches = patch_image(input, geometry).patches;  // (N, g·n, output…)
  return patches.view({patches.size(0), geometry.groups, patches.size(1) / geometry.groups, -1})
      .permute({1, 0, 3, 2})
      .reshape({geometry.groups, -1, patches.size(1) / geometry.groups});
}

}  // namespace adaact
