#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/types.h>

namespace adaact {

/// How a layer reads its input: as rows (linear) or as patches (convolution in 1 to 3 dimensions).
struct Geometry {
  std::vector<std::int64_t> kernel;  // empty: linear
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding_before;  // zeros; `same` may put one more after than before
  std::vector<std::int64_t> padding_after;
  std::vector<std::int64_t> dilation;
  std::int64_t groups = 1;

  static Geometry linear() { return {}; }
  /// A convolution with symmetric padding; a list of one entry counts for every dimension.
  static Geometry convolution(at::IntArrayRef kernel, at::IntArrayRef stride,
                              at::IntArrayRef padding, at::IntArrayRef dilation,
                              std::int64_t groups);
  /// A convolution with padding "same" or "valid".
  static Geometry convolution_with_named_padding(at::IntArrayRef kernel, at::IntArrayRef stride,
                                                 const std::string& padding,
                                                 at::IntArrayRef dilation, std::int64_t groups);

  bool is_linear() const noexcept { return kernel.empty(); }
  std::int64_t spatial_dims() const noexcept { return static_cast<std::int64_t>(kernel.size()); }
  std::int64_t output_size(std::int64_t dim, std::int64_t input_size) const;

  /// Throws, naming what does not fit, where this cannot be the layer's input.
  void check(const torch::Tensor& input) const;
  /// The input with exactly one leading batch dimension: (N, D) or (N, C, spatial…).
  torch::Tensor batched(const torch::Tensor& input) const;
  /// Output positions of one sample of a batched input (1 for linear).
  std::int64_t positions(const torch::Tensor& batched_input) const;
  /// Entries of one row of the patch matrix of one group: D, or C/groups · kernel volume.
  std::int64_t features(const torch::Tensor& input) const;
};

}  // namespace adaact
