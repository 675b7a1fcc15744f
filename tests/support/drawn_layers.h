#pragma once

// The layers of src/layers with inputs of drawn shapes, and what central differences say of their gradients. All numbers
// are drawn on the CPU, whatever the device: fused layers get those with which the plain ones pass.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "layers/average_pool.h"
#include "layers/batch_norm.h"
#include "layers/convolution.h"
#include "layers/feature_buffer.h"
#include "layers/global_average.h"
#include "layers/layer_norm.h"
#include "layers/linear.h"
#include "layers/max_pool.h"
#include "layers/shortened.h"

namespace adaact::testing {

/// A function of leaves in float64 that goes through one layer.
struct DrawnLayer {
  std::string what;
  std::vector<torch::Tensor> leaves;
  std::function<torch::Tensor()> loss;
};

/// One number that every element of an output has another part in.
inline torch::Tensor weighted_sum(const torch::Tensor& output) {
  const auto weight = torch::arange(1, output.numel() + 1, output.options()).cos();
  return (output * weight.view(output.sizes())).sum();
}

class LayerDrawer {
 public:
  explicit LayerDrawer(torch::Device device, unsigned seed = 41) : device_(device), random_(seed) {
    torch::manual_seed(seed);
  }

  DrawnLayer batch_norm() {
    auto shape = image_shape(20, 1);
    if (shape[0] * shape[2] * shape[3] == 1) shape[2] = 2;  // one value has no variance
    const bool channels_last = toss();
    auto norm = on_device(torch::nn::BatchNorm2d(shape[1]));
    const auto x = leaf(shape, channels_last);
    std::vector<torch::Tensor> leaves{x, norm->weight, norm->bias};
    const auto what = describe("batch norm", shape, channels_last);
    switch (draw(0, 3)) {
      case 0:
        return {what, leaves, [=]() mutable { return weighted_sum(adaact::batch_norm(norm, x)); }};
      case 1:
        return {what + " ReLU", leaves,
                [=]() mutable { return weighted_sum(batch_norm_relu(norm, x)); }};
      case 2:
        return {what + " ReLU around", leaves,
                [=]() mutable { return of_both(batch_norm_relu_around(norm, x)); }};
      default:
        torch::Tensor residual;
        if (toss()) leaves.push_back(residual = leaf(shape, channels_last));
        return {what + " residual ReLU", leaves,
                [=]() mutable { return of_both(batch_norm_add_relu(norm, x, residual)); }};
    }
  }

  /// A stream and the branches that normalisations add to it, one after the other.
  DrawnLayer layer_norm() {
    const std::vector<std::int64_t> shape{draw(1, 4), draw(1, 5), draw(2, 48)};
    const auto x = leaf(shape);
    std::vector<torch::Tensor> leaves{x};
    std::vector<std::pair<torch::nn::LayerNorm, Branch>> added;
    const auto branches = draw(0, 3);
    for (std::int64_t i = 0; i < std::max<std::int64_t>(branches, 1); ++i) {
      auto norm = on_device(torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape[2]})));
      leaves.insert(leaves.end(), {norm->weight, norm->bias});
      Branch branch;
      if (branches > 0) leaves.push_back(branch.values = leaf(shape));
      if (branches > 0 && toss()) leaves.push_back(branch.bias = leaf({shape[2]}));
      added.emplace_back(norm, branch);
    }
    const auto what = describe("layer norm of " + std::to_string(branches) + " branches", shape);
    return {what, leaves, [=]() mutable {
              ResidualStream stream{x, {}};
              auto loss = torch::zeros({}, x.options());
              for (auto& [norm, branch] : added) {
                const auto normalised = add_layer_norm(norm, stream, branch);
                loss = loss + weighted_sum(normalised.output);
                stream = normalised.stream;
              }
              return loss + weighted_sum(stream.sum().sin());
            }};
  }

  DrawnLayer gelu() {
    const std::vector<std::int64_t> shape{draw(1, 4), draw(1, 5), draw(1, 20)};
    const auto layer = on_device(torch::nn::Linear(shape[2], draw(1, 50)));
    const auto x = leaf(shape);
    return {describe("GELU", shape), {x, layer->weight, layer->bias}, [=] {
              return weighted_sum(linear_gelu(layer, x));
            }};
  }

  DrawnLayer average_pool() {
    const auto size = draw(1, 4);
    return of_images("average pool by " + std::to_string(size), image_shape(20, size),
                     [=](const torch::Tensor& x) { return adaact::average_pool(x, size); });
  }

  DrawnLayer global_average() {
    return of_images("global average", image_shape(40, 1),
                     [](const torch::Tensor& x) { return adaact::global_average(x); });
  }

  DrawnLayer max_pool() {
    const auto kernel = draw(1, 4);
    const auto stride = draw(1, 3);
    const auto padding = draw(0, kernel / 2);
    return of_images(
        "max pool " + std::to_string(kernel), image_shape(20, kernel),
        [=](const torch::Tensor& x) { return adaact::max_pool(x, kernel, stride, padding); });
  }

  DrawnLayer shortened() {
    const auto stride = draw(1, 3);
    const auto new_channels = draw(0, 9);
    return of_images("shortened", image_shape(20, 1), [=](const torch::Tensor& x) {
      return adaact::shortened(x, stride, new_channels);
    });
  }

  DrawnLayer feature_buffer() {
    const bool channels_last = toss();
    auto shape = image_shape(9, 1);
    const auto what = describe("features", shape, channels_last);
    std::vector<torch::Tensor> leaves;
    std::int64_t more = 0;
    for (auto parts = draw(1, 4); parts > 0; --parts) {
      leaves.push_back(leaf(shape, channels_last));
      if (leaves.size() > 1) more += shape[1];
      shape[1] = draw(1, 9);
    }
    return {what, leaves, [=] {
              // Sines, because a layer's output is no leaf.
              FeatureBuffer buffer(leaves[0].sin(), more, /*training=*/true);
              for (std::size_t i = 1; i < leaves.size(); ++i) {
                buffer.add(leaves[i].sin(), buffer.features());
              }
              return weighted_sum(buffer.features());
            }};
  }

  DrawnLayer convolution() {
    const auto groups = draw(1, 3);
    const auto kernel = draw(1, 3);
    const auto shape = image_shape(5, kernel);
    const auto layer = on_device(
        torch::nn::Conv2d(torch::nn::Conv2dOptions(groups * shape[1], groups * draw(1, 4), kernel)
                              .stride(draw(1, 2))
                              .padding(draw(0, 2))
                              .groups(groups)));
    const bool channels_last = toss();
    const auto x = leaf({shape[0], groups * shape[1], shape[2], shape[3]}, channels_last);
    return {describe("convolution in " + std::to_string(groups) + " groups", shape, channels_last),
            {x, layer->weight, layer->bias},
            [=] { return weighted_sum(adaact::convolution(layer, x)); }};
  }

  /// So many of each kind.
  std::vector<DrawnLayer> of_every_kind(int count) {
    std::vector<DrawnLayer> layers;
    for (int i = 0; i < count; ++i) {
      layers.push_back(batch_norm());
      layers.push_back(layer_norm());
      layers.push_back(gelu());
      layers.push_back(average_pool());
      layers.push_back(global_average());
      layers.push_back(max_pool());
      layers.push_back(shortened());
      layers.push_back(feature_buffer());
      layers.push_back(convolution());
    }
    return layers;
  }

  /// Numbers on the device, drawn on the CPU.
  torch::Tensor normal(at::IntArrayRef shape) const {
    return torch::randn(shape, torch::kFloat64).to(device_);
  }

 private:
  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  bool toss() { return draw(0, 1) == 1; }

  /// Every third batch is of one image; odd and even numbers of channels.
  std::vector<std::int64_t> image_shape(std::int64_t most_channels, std::int64_t least_size) {
    const auto images = draw(0, 2) == 0 ? 1 : draw(2, 5);
    return {images, draw(1, most_channels), draw(least_size, 9), draw(least_size, 9)};
  }

  torch::Tensor leaf(at::IntArrayRef shape, bool channels_last = false) const {
    const auto format =
        channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous;
    return (2 * normal(shape) + 1).contiguous(format).requires_grad_();
  }

  /// The layer in float64, with parameters of which none is a special number.
  template <typename Layer>
  Layer on_device(Layer layer) const {
    layer->to(device_, torch::kFloat64);
    const torch::NoGradGuard no_grad;
    for (const auto& parameter : layer->parameters()) parameter.copy_(normal(parameter.sizes()));
    return layer;
  }

  static torch::Tensor of_both(const Forked& forked) {
    return weighted_sum(forked.onward) + weighted_sum(forked.around.sin());
  }

  DrawnLayer of_images(const std::string& name, const std::vector<std::int64_t>& shape,
                       const std::function<torch::Tensor(const torch::Tensor&)>& layer) {
    const bool channels_last = toss();
    const auto x = leaf(shape, channels_last);
    return {describe(name, shape, channels_last), {x}, [=] { return weighted_sum(layer(x)); }};
  }

  static std::string describe(const std::string& name, const std::vector<std::int64_t>& shape,
                              bool channels_last = false) {
    auto text = name;
    for (const auto& size : shape) {
      text += (&size == shape.data() ? " " : "×") + std::to_string(size);
    }
    return text + (channels_last ? " channels last" : "");
  }

  torch::Device device_;
  std::mt19937 random_;
};

/// Expects (L(θ + hv) − L(θ − hv)) / 2h to be ⟨gradient, v⟩, for a drawn direction v.
inline void expect_slope(const DrawnLayer& layer, const LayerDrawer& drawer) {
  SCOPED_TRACE(layer.what);
  layer.loss().backward();
  std::vector<torch::Tensor> directions;
  double slope = 0.0;
  for (const auto& leaf : layer.leaves) {
    ASSERT_TRUE(leaf.grad().defined());
    directions.push_back(drawer.normal(leaf.sizes()));
    slope += (leaf.grad() * directions.back()).sum().item<double>();
  }
  constexpr double kStep = 1e-7;
  const auto moved = [&](double by) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < directions.size(); ++i) layer.leaves[i].add_(directions[i], by);
    const auto value = layer.loss().item<double>();
    for (std::size_t i = 0; i < directions.size(); ++i) layer.leaves[i].sub_(directions[i], by);
    return value;
  };
  const auto difference = (moved(kStep) - moved(-kStep)) / (2 * kStep);
  EXPECT_NEAR(difference, slope, 1e-5 * (1.0 + std::abs(slope)));
}

}  // namespace adaact::testing
