// Fused layers on a GPU against the plain ones through autograd. Skips, visibly, where there is none.

#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <adaact/models/registry.h>
#include <adaact/optim/adaact.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "layers/average_pool.h"
#include "layers/batch_norm.h"
#include "layers/feature_buffer.h"
#include "layers/global_average.h"
#include "layers/layer_norm.h"
#include "layers/linear.h"
#include "layers/plain_layers.h"
#include "layers/shortened.h"
#include "models/layers.h"
#include "support/drawn_layers.h"
#include "train/step/autocast.h"

namespace {

using adaact::PlainLayers;
using Tensors = std::vector<torch::Tensor>;

const auto kDouble = torch::dtype(torch::kFloat64).device(torch::kCUDA);

class FusedLayersCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(17);
  }

  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  bool toss() { return draw(0, 1) == 1; }

  std::mt19937 random_{29};
};

/// ‖a − b‖ / (1 + ‖b‖), infinite where shapes differ or something is not finite.
double distance(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.defined() != b.defined()) return INFINITY;
  if (!a.defined()) return 0.0;
  if (a.sizes() != b.sizes()) return INFINITY;
  const auto expected = b.detach().to(torch::kFloat64);
  const auto apart = (a.detach().to(torch::kFloat64) - expected).norm().item<double>() /
                     (1.0 + expected.norm().item<double>());
  return std::isfinite(apart) ? apart : INFINITY;
}

void expect_near(const Tensors& actual, const Tensors& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_LE(distance(actual[i], expected[i]), tolerance) << "tensor " << i;
  }
}

/// What a layer makes of inputs: outputs, and gradients of Σ output · weight for all that take one.
struct Passed {
  Tensors outputs;
  Tensors gradients;
};

/// `layer` gives outputs, of which some may be equal to one another: each has its own weight.
Passed pass_through(const std::function<Tensors()>& layer, const Tensors& leaves,
                    const Tensors& weights) {
  for (const auto& leaf : leaves) leaf.mutable_grad() = torch::Tensor();
  const auto outputs = layer();
  torch::Tensor loss = torch::zeros({}, kDouble);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    loss = loss + (outputs[i].to(torch::kFloat64) * weights[i]).sum();
  }
  loss.backward();
  Passed passed;
  for (const auto& output : outputs) passed.outputs.push_back(output.detach());
  for (const auto& leaf : leaves) {
    passed.gradients.push_back(leaf.grad().defined() ? leaf.grad().clone() : torch::Tensor());
  }
  return passed;
}

struct NormCase {
  std::int64_t images, channels, height, width;
  bool channels_last, residual, relu;
  torch::ScalarType dtype = torch::kFloat64;
};

std::string describe(const NormCase& of) {
  return std::to_string(of.images) + "×" + std::to_string(of.channels) + "×" +
         std::to_string(of.height) + "×" + std::to_string(of.width) +
         (of.channels_last ? " channels last" : "") + (of.residual ? " residual" : "") +
         (of.relu ? " relu " : " ") + torch::toString(of.dtype);
}

struct NormInputs {
  torch::nn::BatchNorm2d norm{nullptr};
  torch::Tensor x, residual;
  Tensors leaves, weights;
};

torch::Tensor image(const NormCase& of) {
  return (torch::randn({of.images, of.channels, of.height, of.width}, kDouble) * 2 + 3)
      .to(of.dtype)
      .contiguous(of.channels_last ? torch::MemoryFormat::ChannelsLast
                                   : torch::MemoryFormat::Contiguous);
}

NormInputs inputs_of(const NormCase& of) {
  NormInputs inputs;
  inputs.norm = torch::nn::BatchNorm2d(of.channels);
  inputs.norm->to(torch::kCUDA, of.dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32);
  {
    const torch::NoGradGuard no_grad;
    inputs.norm->weight.uniform_(-1.0, 2.0);
    inputs.norm->bias.normal_();
  }
  inputs.x = image(of).requires_grad_();
  inputs.leaves = {inputs.x, inputs.norm->weight, inputs.norm->bias};
  if (of.residual) {
    inputs.residual = image(of).requires_grad_();
    inputs.leaves.push_back(inputs.residual);
  }
  for (int i = 0; i < 2; ++i) inputs.weights.push_back(torch::randn(inputs.x.sizes(), kDouble));
  return inputs;
}

Tensors state_of(const torch::nn::BatchNorm2d& norm) {
  return {norm->running_mean.clone(), norm->running_var.clone(), norm->num_batches_tracked.clone()};
}

void restore(torch::nn::BatchNorm2d& norm, const Tensors& state) {
  const torch::NoGradGuard no_grad;
  norm->running_mean.copy_(state[0]);
  norm->running_var.copy_(state[1]);
  norm->num_batches_tracked.copy_(state[2]);
}

Tensors run(NormInputs& inputs, const NormCase& of) {
  if (of.residual || of.relu) {
    if (!of.relu) return {adaact::batch_norm(inputs.norm, inputs.x) + inputs.residual};
    const auto y = adaact::batch_norm_add_relu(inputs.norm, inputs.x, inputs.residual);
    return {y.onward, y.around};
  }
  return {adaact::batch_norm(inputs.norm, inputs.x)};
}

/// The same numbers in float64.
NormInputs in_float64(const NormInputs& inputs) {
  const auto leaf = [](const torch::Tensor& of) {
    return of.detach().to(torch::kFloat64).requires_grad_();
  };
  NormInputs same;
  same.norm = torch::nn::BatchNorm2d(inputs.norm->weight.numel());
  same.norm->to(torch::kCUDA, torch::kFloat64);
  {
    const torch::NoGradGuard no_grad;
    same.norm->weight.copy_(inputs.norm->weight);
    same.norm->bias.copy_(inputs.norm->bias);
  }
  same.x = leaf(inputs.x);
  same.leaves = {same.x, same.norm->weight, same.norm->bias};
  if (inputs.residual.defined()) {
    same.residual = leaf(inputs.residual);
    same.leaves.push_back(same.residual);
  }
  same.weights = inputs.weights;
  return same;
}

/// In float64 equal to the plain layers. In narrower dtypes no further from the result in float64 than they are,
/// which round what they pass on to one another.
void expect_as_plain(const NormCase& of) {
  SCOPED_TRACE(describe(of));
  auto inputs = inputs_of(of);
  const auto before = state_of(inputs.norm);
  const auto pass = [&](NormInputs& with) {
    return pass_through([&] { return run(with, of); }, with.leaves, with.weights);
  };
  const auto fused = pass(inputs);
  const auto state = state_of(inputs.norm);
  restore(inputs.norm, before);
  const PlainLayers plain;
  const auto of_plain = pass(inputs);
  expect_near(state, state_of(inputs.norm), of.dtype == torch::kFloat64 ? 1e-9 : 1e-6);
  if (of.dtype == torch::kFloat64) {
    expect_near(fused.outputs, of_plain.outputs, 1e-9);
    expect_near(fused.gradients, of_plain.gradients, 1e-9);
    return;
  }
  auto exact_inputs = in_float64(inputs);
  const auto exact = pass(exact_inputs);
  const auto expect_no_further = [](const Tensors& actual, const Tensors& usual,
                                    const Tensors& right) {
    for (std::size_t i = 0; i < right.size(); ++i) {
      EXPECT_LE(distance(actual[i], right[i]), 1.2 * distance(usual[i], right[i]) + 1e-6)
          << "tensor " << i;
    }
  };
  expect_no_further(fused.outputs, of_plain.outputs, exact.outputs);
  expect_no_further(fused.gradients, of_plain.gradients, exact.gradients);
}

TEST_F(FusedLayersCuda, BatchNormIsThePlainOneForDrawnShapes) {
  for (int i = 0; i < 300; ++i) {
    NormCase of{draw(1, 9), draw(1, 70), draw(1, 9), draw(1, 9), toss(), toss(), toss()};
    if (i % 10 == 0) of.images = 1;
    if (of.images * of.height * of.width == 1) of.height = 2;
    expect_as_plain(of);
  }
}

TEST_F(FusedLayersCuda, BatchNormIsThePlainOneInRunsAndInManyParts) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kHalf}) {
    for (const bool channels_last : {true, false}) {
      for (const bool residual : {true, false}) {
        expect_as_plain({64, 64, 16, 16, channels_last, residual, true, dtype});
        expect_as_plain({32, 256, 8, 8, channels_last, residual, true, dtype});
        expect_as_plain({128, 16, 32, 32, channels_last, residual, true, dtype});
        expect_as_plain({16, 24, 7, 5, channels_last, residual, true, dtype});
      }
      expect_as_plain({128, 40, 9, 9, channels_last, false, false, dtype});
    }
  }
}

TEST_F(FusedLayersCuda, BatchNormOfLargeValuesKeepsItsVariance) {
  const auto x = torch::randn({64, 8, 16, 16}, kDouble) + 1e4;
  for (const bool channels_last : {true, false}) {
    torch::nn::BatchNorm2d norm(8);
    norm->to(torch::kCUDA);
    const auto images = x.to(torch::kFloat32)
                            .contiguous(channels_last ? torch::MemoryFormat::ChannelsLast
                                                      : torch::MemoryFormat::Contiguous);
    adaact::batch_norm(norm, images);
    const auto variance = images.to(torch::kFloat64).var(at::IntArrayRef{0, 2, 3});
    EXPECT_LE(distance(norm->running_var, 0.9 + 0.1 * variance), 1e-5);
  }
}

TEST_F(FusedLayersCuda, BatchNormOfOneValueIsTheSameError) {
  torch::nn::BatchNorm2d norm(3);
  norm->to(torch::kCUDA);
  EXPECT_THROW(adaact::batch_norm_relu(norm, torch::randn({1, 3, 1, 1}, torch::kCUDA)), c10::Error);
}

TEST_F(FusedLayersCuda, EqualInputsGiveEqualBits) {
  const NormCase of{128, 64, 32, 32, true, true, true, torch::kBFloat16};
  auto inputs = inputs_of(of);
  const auto once = pass_through([&] { return run(inputs, of); }, inputs.leaves, inputs.weights);
  const auto again = pass_through([&] { return run(inputs, of); }, inputs.leaves, inputs.weights);
  for (std::size_t i = 0; i < once.outputs.size(); ++i) {
    EXPECT_TRUE(once.outputs[i].equal(again.outputs[i]));
  }
  for (std::size_t i = 0; i < once.gradients.size(); ++i) {
    EXPECT_TRUE(once.gradients[i].equal(again.gradients[i])) << "gradient " << i;
  }
}

TEST_F(FusedLayersCuda, ChannelsOfALargerTensorAreRead) {
  for (const bool channels_last : {true, false}) {
    const NormCase of{4, 24, 5, 3, channels_last, false, true};
    auto inputs = inputs_of(of);
    const auto whole = image({4, 40, 5, 3, channels_last, false, true});
    const auto weight = torch::randn({4, 24, 5, 3}, kDouble);
    const auto gradient = [&] {
      const auto leaf = whole.clone().requires_grad_();
      const auto part = leaf.narrow(1, 8, 24);
      const auto y = adaact::batch_norm_relu_around(inputs.norm, part);
      (y.onward * weight + y.around * y.around).sum().backward();
      return leaf.grad().clone();
    };
    const auto fused = gradient();
    const PlainLayers plain;
    EXPECT_LE(distance(fused, gradient()), 1e-9);
  }
}

TEST_F(FusedLayersCuda, GradientsAreCentralDifferencesForDrawnShapes) {
  adaact::testing::LayerDrawer drawer(torch::kCUDA);
  for (const auto& layer : drawer.of_every_kind(40)) expect_slope(layer, drawer);
}

TEST_F(FusedLayersCuda, GradientsCanBeDifferentiatedOnceMore) {
  const auto second = [](const std::function<torch::Tensor(const torch::Tensor&)>& layer,
                         const torch::Tensor& x) {
    const auto weight = torch::ones_like(x).cumsum(1);
    const auto y = layer(x);
    const auto first = torch::autograd::grad({(y * y * weight).sum()}, {x}, {}, true, true)[0];
    return torch::autograd::grad({(first * first).sum()}, {x})[0];
  };
  torch::nn::BatchNorm2d norm(6);
  norm->to(torch::kCUDA, torch::kFloat64);
  torch::nn::LayerNorm rows(torch::nn::LayerNormOptions({6}));
  rows->to(torch::kCUDA, torch::kFloat64);
  torch::nn::Linear layer(6, 6);
  layer->to(torch::kCUDA, torch::kFloat64);
  const auto images = torch::randn({4, 6, 3, 3}, kDouble).requires_grad_();
  const auto tokens = torch::randn({4, 6}, kDouble).requires_grad_();
  const auto of_norm = [&](const torch::Tensor& x) {
    return adaact::batch_norm_add_relu(norm, x, x.detach() * 0.3).onward;
  };
  const auto of_rows = [&](const torch::Tensor& x) {
    return adaact::add_layer_norm(rows, {x, {}}, {x.detach(), {}}).output;
  };
  const auto of_layer = [&](const torch::Tensor& x) { return adaact::linear_gelu(layer, x); };
  const auto of_average = [&](const torch::Tensor& x) {
    return adaact::global_average(x).unsqueeze(2).unsqueeze(3) * x.detach();
  };
  const auto all = [&] {
    return Tensors{second(of_norm, images), second(of_rows, tokens), second(of_layer, tokens),
                   second(of_average, images)};
  };
  const auto fused = all();
  const PlainLayers plain;
  expect_near(fused, all(), 1e-9);
}

TEST_F(FusedLayersCuda, LayerNormIsThePlainOneForDrawnShapes) {
  for (int i = 0; i < 200; ++i) {
    const auto channels = i % 2 == 0 ? draw(1, 256) : 4 * draw(1, 128);
    const bool has_branch = toss();
    const bool reads_stream = toss();
    SCOPED_TRACE(std::to_string(channels) + " channels");
    torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({channels}).eps(1e-6));
    norm->to(torch::kCUDA, torch::kFloat64);
    {
      const torch::NoGradGuard no_grad;
      norm->weight.normal_();
      norm->bias.normal_();
    }
    const auto x = torch::randn({draw(1, 40), draw(1, 9), channels}, kDouble).requires_grad_();
    const bool has_bias = has_branch && toss();
    torch::Tensor branch;
    torch::Tensor branch_bias;
    Tensors leaves{x, norm->weight, norm->bias};
    if (has_branch) leaves.push_back(branch = torch::randn_like(x).requires_grad_());
    if (has_bias)
      leaves.push_back(branch_bias = torch::randn({channels}, kDouble).requires_grad_());
    const Tensors weights{torch::randn_like(x), torch::randn_like(x)};
    const auto layer = [&]() -> Tensors {
      const auto y = adaact::add_layer_norm(norm, {x, {}}, {branch, branch_bias});
      if (!reads_stream) return {y.output};
      return {y.output, y.stream.sum()};
    };
    const auto fused = pass_through(layer, leaves, weights);
    const PlainLayers plain;
    const auto expected = pass_through(layer, leaves, weights);
    expect_near(fused.outputs, expected.outputs, 1e-9);
    expect_near(fused.gradients, expected.gradients, 1e-9);
  }
}

/// A stream and the branches that normalisations add to it, one after the other.
struct ResidualChain {
  ResidualChain(std::int64_t rows, std::int64_t channels, torch::ScalarType wide,
                torch::ScalarType narrow, int branches) {
    const auto leaf = [&](std::vector<std::int64_t> shape, torch::ScalarType dtype) {
      leaves.push_back(torch::randn(shape, kDouble).to(dtype).requires_grad_());
      return leaves.back();
    };
    x = leaf({rows, channels}, wide);
    for (int i = 0; i < branches; ++i) {
      values.push_back(leaf({rows, channels}, narrow));
      biases.push_back(i % 3 == 2 ? torch::Tensor() : leaf({channels}, wide));
      norms.emplace_back(torch::nn::LayerNormOptions({channels}).eps(1e-6));
      norms.back()->to(torch::kCUDA, wide);
      leaves.push_back(norms.back()->weight);
      leaves.push_back(norms.back()->bias);
      weights.push_back(torch::randn({rows, channels}, kDouble));
    }
    weights.push_back(torch::randn({rows, channels}, kDouble));
  }

  /// The outputs of all norms and the stream in the end.
  Tensors run() {
    Tensors outputs;
    adaact::ResidualStream stream{x, {}};
    for (std::size_t i = 0; i < norms.size(); ++i) {
      const auto y = adaact::add_layer_norm(norms[i], stream, {values[i], biases[i]});
      outputs.push_back(y.output);
      stream = y.stream;
    }
    outputs.push_back(stream.sum());
    return outputs;
  }

  torch::Tensor x;
  Tensors values, biases, leaves, weights;
  std::vector<torch::nn::LayerNorm> norms;
};

TEST_F(FusedLayersCuda, ChainsOfNormsAreThePlainOnes) {
  for (int branches = 1; branches <= 5; ++branches) {
    for (const std::int64_t channels : {7, 40, 96, 200}) {
      SCOPED_TRACE(std::to_string(branches) + " branches of " + std::to_string(channels));
      ResidualChain chain(33, channels, torch::kFloat64, torch::kFloat64, branches);
      const auto run = [&] { return chain.run(); };
      const auto fused = pass_through(run, chain.leaves, chain.weights);
      const PlainLayers plain;
      const auto expected = pass_through(run, chain.leaves, chain.weights);
      expect_near(fused.outputs, expected.outputs, 1e-9);
      expect_near(fused.gradients, expected.gradients, 1e-9);
    }
  }
}

TEST_F(FusedLayersCuda, ChainsOfNormsUnderAutocast) {
  for (int branches = 1; branches <= 4; ++branches) {
    ResidualChain chain(1970, 384, torch::kFloat32, torch::kBFloat16, branches);
    const auto run = [&] {
      const adaact::AutocastScope autocast(chain.x.device(), true);
      return chain.run();
    };
    const auto fused = pass_through(run, chain.leaves, chain.weights);
    EXPECT_EQ(fused.outputs.front().scalar_type(), torch::kBFloat16);
    EXPECT_EQ(fused.outputs.back().scalar_type(), torch::kFloat32);
    const PlainLayers plain;
    const auto expected = pass_through(run, chain.leaves, chain.weights);
    EXPECT_LE(distance(fused.outputs.back(), expected.outputs.back()), 1e-6);
    expect_near(fused.outputs, expected.outputs, 2e-2);
    expect_near(fused.gradients, expected.gradients, 2e-2);
  }
}

TEST_F(FusedLayersCuda, ChainsOfNormsCanBeDifferentiatedTwice) {
  ResidualChain chain(5, 12, torch::kFloat64, torch::kFloat64, 3);
  const auto second = [&] {
    torch::Tensor loss = torch::zeros({}, kDouble);
    const auto outputs = chain.run();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      loss = loss + (outputs[i] * outputs[i] * chain.weights[i]).sum();
    }
    const auto first = torch::autograd::grad({loss}, chain.leaves, {}, true, true);
    torch::Tensor of_gradients = torch::zeros({}, kDouble);
    for (const auto& gradient : first) of_gradients = of_gradients + gradient.square().sum();
    return torch::autograd::grad({of_gradients}, chain.leaves);
  };
  const auto fused = second();
  const PlainLayers plain;
  expect_near(fused, second(), 1e-9);
}

TEST_F(FusedLayersCuda, OnlyEverySecondSumIsKept) {
  const auto kept = [](int branches) {
    ResidualChain chain(4096, 384, torch::kFloat32, torch::kBFloat16, branches);
    const adaact::AutocastScope autocast(chain.x.device(), true);
    std::vector<bool> written;
    adaact::ResidualStream stream{chain.x, {}};
    for (int i = 0; i < branches; ++i) {
      const auto before = stream.values;
      stream = adaact::add_layer_norm(chain.norms[i], stream, {chain.values[i], {}}).stream;
      written.push_back(!stream.values.is_alias_of(before));
    }
    return written;
  };
  EXPECT_EQ(kept(4), (std::vector<bool>{false, true, false, true}));
}

TEST_F(FusedLayersCuda, GeluIsThePlainOneForDrawnShapes) {
  for (int i = 0; i < 100; ++i) {
    const auto features = draw(1, 300);
    SCOPED_TRACE(std::to_string(features) + " features");
    torch::nn::Linear layer(draw(1, 20), features);
    layer->to(torch::kCUDA, torch::kFloat64);
    const auto x = torch::randn({draw(1, 300), draw(1, 5), layer->options.in_features()}, kDouble)
                       .requires_grad_();
    const Tensors weights{torch::randn({x.size(0), x.size(1), features}, kDouble)};
    const Tensors leaves{x, layer->weight, layer->bias};
    const auto run_layer = [&] { return Tensors{adaact::linear_gelu(layer, x)}; };
    const auto fused = pass_through(run_layer, leaves, weights);
    const PlainLayers plain;
    const auto expected = pass_through(run_layer, leaves, weights);
    expect_near(fused.outputs, expected.outputs, 1e-9);
    expect_near(fused.gradients, expected.gradients, 1e-9);
  }
}

TEST_F(FusedLayersCuda, GlobalAverageIsThePlainOne) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kHalf}) {
    for (int i = 0; i < 60; ++i) {
      const auto channels = toss() ? draw(1, 40) : 8 * draw(1, 8);
      const auto size = draw(1, 9);
      const NormCase of{draw(1, 9), channels, size, draw(1, 9), toss(), false, false, dtype};
      SCOPED_TRACE(describe(of));
      const auto x = image(of).requires_grad_();
      const Tensors weights{torch::randn({of.images, channels}, kDouble)};
      const auto run_layer = [&] { return Tensors{adaact::global_average(x)}; };
      const auto fused = pass_through(run_layer, {x}, weights);
      const auto given = torch::autograd::grad({adaact::global_average(x).sum()}, {x})[0];
      EXPECT_TRUE(given.is_contiguous(of.channels_last ? torch::MemoryFormat::ChannelsLast
                                                       : torch::MemoryFormat::Contiguous));
      const PlainLayers plain;
      const auto expected = pass_through(run_layer, {x}, weights);
      EXPECT_TRUE(fused.outputs[0].equal(expected.outputs[0]));
      expect_near(fused.gradients, expected.gradients, dtype == torch::kFloat64 ? 1e-9 : 1e-3);
    }
  }
}

/// `layer` of images against itself with plain layers, in float64 and in a narrow dtype; second derivatives too.
void expect_layer_is_plain(const std::function<torch::Tensor(const torch::Tensor&)>& layer,
                           const torch::Tensor& images, const std::string& what) {
  SCOPED_TRACE(what);
  const auto x = images.detach().requires_grad_();
  const auto gradients = [&](bool plain, bool twice) {
    std::optional<PlainLayers> guard;
    if (plain) guard.emplace();
    const auto y = layer(x);
    const auto weight = torch::arange(1, y.numel() + 1, y.options()).view(y.sizes()).cos();
    auto gradient = torch::autograd::grad({(y * y * weight).sum()}, {x}, {},
                                          /*retain_graph=*/twice, /*create_graph=*/twice)[0];
    if (twice) gradient = torch::autograd::grad({(gradient * gradient).sum()}, {x})[0];
    return Tensors{y.detach(), gradient.detach()};
  };
  for (const bool twice : {false, true}) {
    expect_near(gradients(false, twice), gradients(true, twice), 1e-12);
  }
  const auto narrow = images.to(torch::kBFloat16);
  const auto fused = layer(narrow);
  const PlainLayers guard;
  EXPECT_TRUE(torch::equal(fused, layer(narrow)));
}

TEST_F(FusedLayersCuda, AveragePoolIsThePlainOne) {
  for (int i = 0; i < 60; ++i) {
    const auto size = draw(1, 4);
    const NormCase of{draw(1, 5),     i % 2 == 0 ? 8 * draw(1, 9) : draw(1, 20),
                      draw(size, 19), draw(size, 19),
                      i % 5 != 0,     false,
                      false};
    expect_layer_is_plain([&](const torch::Tensor& x) { return adaact::average_pool(x, size); },
                          image(of), describe(of) + " by " + std::to_string(size));
  }
}

TEST_F(FusedLayersCuda, ShortenedIsThePlainOne) {
  for (int i = 0; i < 60; ++i) {
    const auto new_channels = i % 2 == 0 ? 16 * draw(0, 3) : draw(0, 9);
    const auto stride = draw(1, 3);
    const NormCase of{draw(1, 5),  i % 2 == 0 ? 8 * draw(1, 9) : draw(1, 20),
                      draw(1, 17), draw(1, 17),
                      i % 5 != 0,  false,
                      false};
    expect_layer_is_plain(
        [&](const torch::Tensor& x) { return adaact::shortened(x, stride, new_channels); },
        image(of),
        describe(of) + " stride " + std::to_string(stride) + " new channels " +
            std::to_string(new_channels));
  }
}

TEST_F(FusedLayersCuda, FeaturesAreThoseOfCat) {
  for (const bool channels_last : {true, false}) {
    for (const std::int64_t channels : {3, 8, 20}) {
      const NormCase of{3, channels, 5, 4, channels_last, false, false};
      const Tensors leaves{image(of).requires_grad_(), image(of).requires_grad_(),
                           image(of).requires_grad_()};
      const auto features = [&]() -> Tensors {
        adaact::FeatureBuffer buffer(leaves[0] * 2, 2 * channels, /*training=*/true);
        buffer.add(leaves[1] * 3, buffer.features());
        buffer.add(leaves[2] * 5, buffer.features());
        return {buffer.features()};
      };
      const Tensors weights{torch::randn({3, 3 * channels, 5, 4}, kDouble)};
      const auto fused = pass_through(features, leaves, weights);
      const PlainLayers plain;
      const auto expected = pass_through(features, leaves, weights);
      expect_near(fused.outputs, expected.outputs, 0.0);
      expect_near(fused.gradients, expected.gradients, 1e-15);
    }
  }
}

TEST_F(FusedLayersCuda, LayersOfTransformersUnderAutocast) {
  torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({384}).eps(1e-6));
  norm->to(torch::kCUDA);
  torch::nn::Linear layer(384, 1536);
  layer->to(torch::kCUDA);
  const auto x = torch::randn({8, 197, 384}, torch::kCUDA).requires_grad_();
  const auto branch = torch::randn({8, 197, 384}, torch::kCUDA).to(torch::kBFloat16);
  const auto leaf = branch.clone().requires_grad_();
  const auto branch_bias = torch::randn({384}, torch::kCUDA).requires_grad_();
  const Tensors weights{torch::randn({8, 197, 1536}, kDouble), torch::randn(x.sizes(), kDouble)};
  const Tensors leaves{x, leaf, branch_bias, norm->weight, norm->bias, layer->weight, layer->bias};
  const auto run_layers = [&] {
    const adaact::AutocastScope autocast(x.device(), true);
    const auto y = adaact::add_layer_norm(norm, {x, {}}, {leaf, branch_bias});
    return Tensors{adaact::linear_gelu(layer, y.output), y.stream.sum()};
  };
  const auto fused = pass_through(run_layers, leaves, weights);
  EXPECT_EQ(fused.outputs[0].scalar_type(), torch::kBFloat16);
  EXPECT_EQ(fused.outputs[1].scalar_type(), torch::kFloat32);
  const PlainLayers plain;
  const auto expected = pass_through(run_layers, leaves, weights);
  expect_near(fused.outputs, expected.outputs, 2e-2);
  expect_near(fused.gradients, expected.gradients, 2e-2);
}

struct ModelCase {
  std::string name;
  bool channels_last;
};

/// Parameters and buffers after 20 steps of AdaAct in float64.
Tensors trained(const ModelCase& of) {
  torch::manual_seed(5);
  auto options = adaact::default_model_options(of.name);
  options.image_size = 32;
  options.classes = 10;
  const auto model = adaact::make_model(of.name, options);
  model->to(torch::kCUDA, torch::kFloat64);
  adaact::AdaAct optimizer(*model, adaact::AdaActOptions(1e-3));
  const auto format =
      of.channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous;
  const auto images = torch::randn({8, 3, 32, 32}, kDouble).contiguous(format);
  const auto labels = torch::arange(8, torch::dtype(torch::kLong).device(torch::kCUDA));
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    torch::cross_entropy_loss(model->forward(images), labels).backward();
    optimizer.step();
  }
  auto state = model->parameters();
  for (const auto& buffer : model->buffers()) state.push_back(buffer);
  return state;
}

class FusedModels : public ::testing::TestWithParam<ModelCase> {};

TEST_P(FusedModels, AreThePlainOnesAfterTwentySteps) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const auto fused = trained(GetParam());
  const PlainLayers plain;
  const auto expected = trained(GetParam());
  ASSERT_EQ(fused.size(), expected.size());
  for (std::size_t i = 0; i < fused.size(); ++i) {
    EXPECT_LE(distance(fused[i], expected[i]), 1e-7) << "tensor " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, FusedModels,
    ::testing::Values(ModelCase{"resnet20", true}, ModelCase{"resnet20", false},
                      ModelCase{"resnet34", true}, ModelCase{"densenet121", true},
                      ModelCase{"densenet121", false}, ModelCase{"resnet50", true},
                      ModelCase{"vit_small", false}),
    [](const auto& info) {
      return info.param.name + (info.param.channels_last ? "_last" : "_first");
    });

}  // namespace
