#include <adaact/observe/geometry.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace adaact {
namespace {

std::vector<std::int64_t> expanded(at::IntArrayRef values, std::size_t dims, const char* what) {
  TORCH_CHECK(values.size() == 1 || values.size() == dims, "adaact: ", what, " has ", values.size(),
              " entries, expected 1 or ", dims);
  return values.size() == dims ? values.vec() : std::vector<std::int64_t>(dims, values[0]);
}

}  // namespace

Geometry Geometry::convolution(at::IntArrayRef kernel, at::IntArrayRef stride,
                               at::IntArrayRef padding, at::IntArrayRef dilation,
                               std::int64_t groups) {
  const auto dims = kernel.size();
  Geometry geometry;
  geometry.kernel = kernel.vec();
  geometry.stride = expanded(stride, dims, "stride");
  geometry.padding_before = expanded(padding, dims, "padding");
  geometry.padding_after = geometry.padding_before;
  geometry.dilation = expanded(dilation, dims, "dilation");
  geometry.groups = groups;
  return geometry;
}

Geometry Geometry::convolution_with_named_padding(at::IntArrayRef kernel, at::IntArrayRef stride,
                                                  const std::string& padding,
                                                  at::IntArrayRef dilation, std::int64_t groups) {
  auto geometry = convolution(kernel, stride, {0}, dilation, groups);
  TORCH_CHECK(padding == "same" || padding == "valid", "adaact: padding is '", padding,
              "', expected 'same', 'valid' or numbers");
  if (padding == "same") {
    for (std::size_t d = 0; d < kernel.size(); ++d) {
      const auto total = geometry.dilation[d] * (kernel[d] - 1);
      geometry.padding_before[d] = total / 2;
      geometry.padding_after[d] = total - total / 2;
    }
  }
  return geometry;
}

std::int64_t Geometry::output_size(std::int64_t dim, std::int64_t input_size) const {
  const auto d = static_cast<std::size_t>(dim);
  const auto reach = dilation[d] * (kernel[d] - 1) + 1;
  const auto padded = input_size + padding_before[d] + padding_after[d];
  TORCH_CHECK(padded >= reach && stride[d] > 0, "adaact: a kernel reaching over ", reach,
              " positions with stride ", stride[d], " does not fit a padded input of ", padded);
  return (padded - reach) / stride[d] + 1;
}

void Geometry::check(const torch::Tensor& input) const {
  TORCH_CHECK(input.defined() && input.is_floating_point() && input.layout() == torch::kStrided,
              "adaact: the input of a layer must be a dense floating point tensor");
  if (is_linear()) {
    TORCH_CHECK(input.dim() >= 1, "adaact: the input of a linear layer has no dimension");
    return;
  }
  TORCH_CHECK(input.dim() == spatial_dims() + 1 || input.dim() == spatial_dims() + 2,
              "adaact: the input of a ", spatial_dims(), "-d convolution has ", input.dim(),
              " dimensions");
  const auto channels = input.size(-1 - spatial_dims());
  TORCH_CHECK(groups > 0 && channels % groups == 0, "adaact: ", channels,
              " channels cannot be split into ", groups, " groups");
}

torch::Tensor Geometry::batched(const torch::Tensor& input) const {
  check(input);
  if (is_linear()) {
    // The order of the rows does not matter to a sum: taking them as they lie in memory spares the
    // copy that reshape() would make of a (batch, sequence) input transposed to (sequence, batch).
    std::vector<std::int64_t> order(static_cast<std::size_t>(input.dim()));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end() - 1, [&](auto left, auto right) {
      return input.stride(left) > input.stride(right);
    });
    return input.permute(order).reshape({-1, input.size(-1)});
  }
  return input.dim() == spatial_dims() + 1 ? input.unsqueeze(0) : input;
}

std::int64_t Geometry::positions(const torch::Tensor& batched_input) const {
  std::int64_t positions = 1;
  for (std::int64_t d = 0; d < spatial_dims(); ++d) {
    positions *= output_size(d, batched_input.size(d + 2));
  }
  return positions;
}

std::int64_t Geometry::features(const torch::Tensor& input) const {
  const auto channels = input.size(-1 - spatial_dims());
  return std::accumulate(kernel.begin(), kernel.end(), channels / groups, std::multiplies<>());
}

}  // namespace adaact
