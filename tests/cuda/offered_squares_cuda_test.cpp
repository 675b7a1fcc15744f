// Squares that fused layers sum while they write, against sums over what they wrote. Skips, visibly, where there is
// no GPU.

#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <adaact/models/vit.h>
#include <adaact/optim/adaact.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "layers/batch_norm.h"
#include "layers/bias_gelu_cuda.h"
#include "layers/convolution.h"
#include "layers/layer_norm.h"
#include "layers/layer_norm_cuda.h"
#include "layers/linear.h"
#include "layers/plain_layers.h"
#include "moments/offered_squares.h"
#include "train/step/autocast.h"

namespace {

using adaact::AdaAct;
using adaact::AdaActOptions;
using adaact::offer_squares;
using adaact::offered_squares;
using adaact::PlainLayers;
using Tensors = std::vector<torch::Tensor>;

class OfferedSquaresCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(43);
  }

  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  bool toss() { return draw(0, 1) == 1; }

  std::mt19937 random_{31};
};

/// The largest |a − b| / (|b| + the mean of |b|/10⁶), infinite where shapes differ.
double relative_distance(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.sizes() != b.sizes()) return INFINITY;
  const auto expected = b.detach().to(torch::kFloat64);
  const auto scale = expected.abs() + 1e-6 * expected.abs().mean() + 1e-300;
  return ((a.detach().to(torch::kFloat64) - expected).abs() / scale).max().item<double>();
}

torch::Tensor exact_squares(const torch::Tensor& output) {
  return output.detach().to(torch::kFloat64).square().reshape({-1, output.size(-1)}).sum(0);
}

void expect_squares_of(const torch::Tensor& output, const torch::Tensor& parts) {
  const bool is_double = output.scalar_type() == torch::kFloat64;
  ASSERT_EQ(parts.scalar_type(), is_double ? torch::kFloat64 : torch::kFloat32);
  ASSERT_TRUE(parts.is_contiguous());
  EXPECT_LE(parts.size(0), 1024);
  EXPECT_LE(relative_distance(parts.to(torch::kFloat64).sum(0), exact_squares(output)),
            is_double ? 1e-12 : 1e-5);
}

struct Rows {
  std::int64_t rows, channels;
  torch::ScalarType dtype;
};

std::string describe(const Rows& of) {
  return std::to_string(of.rows) + "×" + std::to_string(of.channels) + " " +
         torch::toString(of.dtype);
}

torch::ScalarType wide_dtype(torch::ScalarType dtype) {
  return dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

torch::Tensor normal(std::vector<std::int64_t> shape, torch::ScalarType dtype) {
  return torch::randn(shape, torch::dtype(torch::kFloat64).device(torch::kCUDA)).to(dtype);
}

void check_layer_norm(const Rows& of, int branches, bool has_bias) {
  SCOPED_TRACE("layer norm " + describe(of));
  const auto wide = wide_dtype(of.dtype);
  ASSERT_TRUE(adaact::has_layer_norm_kernel(of.channels, wide));
  const auto x = normal({of.rows, of.channels}, wide);
  adaact::SummedRows rows{x, {}, {}};
  const auto draw_branch = [&] {
    return adaact::Branch{normal({of.rows, of.channels}, of.dtype),
                          has_bias ? normal({of.channels}, wide) : torch::Tensor()};
  };
  if (branches > 0) rows.branch = draw_branch();
  if (branches > 1) rows.unwritten = draw_branch();
  const auto weight = normal({of.channels}, wide);
  const auto bias = normal({of.channels}, wide);
  const auto run = [&](bool sum_squares) {
    return adaact::layer_norm_forward_cuda(rows, weight, bias, 1e-6, of.dtype, sum_squares);
  };
  const auto plain = run(false);
  EXPECT_FALSE(plain.squares.defined());
  const auto summed = run(true);
  const auto again = run(true);
  expect_squares_of(summed.output, summed.squares);
  EXPECT_TRUE(summed.squares.equal(again.squares));
  EXPECT_TRUE(summed.output.equal(again.output));
  const auto expect_same = [](const torch::Tensor& a, const torch::Tensor& b, double tolerance) {
    EXPECT_TRUE(
        torch::allclose(a.to(torch::kFloat64), b.to(torch::kFloat64), tolerance, tolerance));
  };
  const double tolerance = wide == torch::kFloat64 ? 1e-12 : 1e-5;
  expect_same(summed.stream, plain.stream, tolerance);
  expect_same(summed.mean, plain.mean, tolerance);
  expect_same(summed.inverse_deviation, plain.inverse_deviation, tolerance);
  expect_same(summed.output, plain.output, of.dtype == wide ? tolerance : 1e-2);
}

void check_gelu(const Rows& of) {
  SCOPED_TRACE("gelu " + describe(of));
  const auto x = normal({of.rows, of.channels}, of.dtype);
  const auto bias = normal({of.channels}, wide_dtype(of.dtype));
  const auto plain = adaact::bias_gelu_forward_cuda(x, bias, /*sum_squares=*/false);
  EXPECT_FALSE(plain.squares.defined());
  const auto summed = adaact::bias_gelu_forward_cuda(x, bias, /*sum_squares=*/true);
  const auto again = adaact::bias_gelu_forward_cuda(x, bias, /*sum_squares=*/true);
  expect_squares_of(summed.output, summed.squares);
  EXPECT_TRUE(summed.squares.equal(again.squares));
  EXPECT_TRUE(summed.output.equal(again.output));
  EXPECT_TRUE(torch::allclose(summed.output.to(torch::kFloat64), plain.output.to(torch::kFloat64),
                              of.dtype == torch::kFloat64 ? 1e-12 : 1e-2, 1e-6));
}

constexpr torch::ScalarType kDtypes[] = {torch::kFloat64, torch::kFloat32, torch::kBFloat16,
                                         torch::kHalf};

TEST_F(OfferedSquaresCuda, OfLayerNormAddUpForDrawnShapes) {
  for (int i = 0; i < 200; ++i) {
    const auto channels = i % 2 == 0 ? draw(1, 256) : 4 * draw(1, 128);
    check_layer_norm({draw(1, i % 5 == 0 ? 9000 : 60), channels, kDtypes[i % 4]},
                     static_cast<int>(draw(0, 2)), toss());
  }
}

TEST_F(OfferedSquaresCuda, OfGeluAddUpForDrawnShapes) {
  for (int i = 0; i < 200; ++i) {
    const auto channels = i % 2 == 0 ? draw(1, 300) : 8 * draw(1, 600);
    check_gelu({draw(1, i % 5 == 0 ? 4000 : 60), channels, kDtypes[i % 4]});
  }
}

TEST_F(OfferedSquaresCuda, AddUpForTheShapesOfTransformers) {
  for (const auto dtype : kDtypes) {
    check_layer_norm({64 * 197, 384, dtype}, 1, true);
    check_layer_norm({64 * 197, 384, dtype}, 2, true);
    check_layer_norm({64 * 197, 512, dtype}, 2, false);
    check_gelu({64 * 197, 1536, dtype});
    check_gelu({16 * 197, 4096, dtype});
  }
  check_layer_norm({64 * 197, 768, torch::kBFloat16}, 2, true);
  check_layer_norm({64 * 197, 1024, torch::kBFloat16}, 2, true);
}

/// GELU in narrow dtypes is no polynomial's: as far from the exact one as rounding takes it, everywhere.
TEST_F(OfferedSquaresCuda, GeluOfNarrowNumbersIsTheExactOneRounded) {
  const auto steps = torch::linspace(-12.0, 12.0, 1 << 16, torch::device(torch::kCUDA));
  const auto bias = torch::zeros({64}, torch::kCUDA);
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    const auto x = steps.to(dtype).view({-1, 64});
    const auto y = adaact::bias_gelu_forward_cuda(x, bias, false).output.to(torch::kFloat64);
    const auto exact = torch::gelu(x.to(torch::kFloat64));
    // Half of the distance of neighbouring numbers, of which 8 and 11 bits are kept.
    const double unit = dtype == torch::kBFloat16 ? 0x1p-8 : 0x1p-11;
    const auto allowed = exact.abs() * (1.05 * unit) + 1e-6;
    EXPECT_LE(((y - exact).abs() / allowed).max().item<double>(), 1.0) << torch::toString(dtype);
  }
  const auto ends =
      torch::full({1, 64}, INFINITY, torch::dtype(torch::kBFloat16).device(torch::kCUDA));
  EXPECT_TRUE(adaact::bias_gelu_forward_cuda(ends, bias, false).output.equal(ends));
  EXPECT_TRUE(
      adaact::bias_gelu_forward_cuda(ends - ends, bias, false).output.isnan().all().item<bool>());
}

/// The layers of a feed-forward branch: each writes the input of the next.
struct BranchNetImpl : torch::nn::Module {
  BranchNetImpl() {
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})));
    first = register_module("first", torch::nn::Linear(32, 64));
    second = register_module("second", torch::nn::Linear(64, 32));
  }

  struct Inputs {
    torch::Tensor of_first, of_second, output;
  };
  Inputs forward(const torch::Tensor& x) {
    const auto normalised = adaact::add_layer_norm(norm, {x, {}}, {}).output;
    const auto hidden = adaact::linear_gelu(first, normalised);
    return {normalised, hidden, adaact::linear(second, hidden)};
  }

  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(BranchNet);

TEST_F(OfferedSquaresCuda, ComeWithTheTensorThatTheNextLayerReads) {
  BranchNet net;
  net->to(torch::kCUDA);
  const AdaAct optimizer(*net);
  const auto x = torch::randn({5, 7, 32}, torch::kCUDA);
  for (const bool autocast : {false, true}) {
    const adaact::AutocastScope scope(x.device(), autocast);
    const auto inputs = net->forward(x);
    for (const auto& input : {inputs.of_first, inputs.of_second}) {
      EXPECT_EQ(input.scalar_type(), autocast ? torch::kBFloat16 : torch::kFloat32);
      const auto parts = offered_squares(input.detach());
      ASSERT_TRUE(parts.defined());
      expect_squares_of(input, parts);
    }
  }
}

TEST_F(OfferedSquaresCuda, AreNotSummedForNobody) {
  BranchNet net;
  net->to(torch::kCUDA);
  const auto x = torch::randn({5, 7, 32}, torch::kCUDA);
  const auto expect_none = [&] {
    const auto inputs = net->forward(x);
    EXPECT_FALSE(offered_squares(inputs.of_first).defined());
    EXPECT_FALSE(offered_squares(inputs.of_second).defined());
  };
  {
    torch::optim::SGD sgd(net->parameters(), 0.1);
    expect_none();
  }
  const AdaAct optimizer(*net);
  {
    const auto pause = optimizer.pause_observation();
    expect_none();
  }
  {
    const torch::NoGradGuard no_grad;
    expect_none();
  }
  const PlainLayers plain;
  expect_none();
}

/// AdaAct's second moments of the net's layers after one step. `between` is shown what the second layer will read.
Tensors moments_of_step(const std::function<void(torch::Tensor&)>& between) {
  torch::manual_seed(7);
  BranchNet net;
  net->to(torch::kCUDA, torch::kFloat64);
  AdaAct optimizer(*net, AdaActOptions(1e-3));
  const auto x = normal({5, 7, 32}, torch::kFloat64);
  const auto normalised = adaact::add_layer_norm(net->norm, {x, {}}, {}).output;
  auto hidden = adaact::linear_gelu(net->first, normalised);
  between(hidden);
  adaact::linear(net->second, hidden).square().sum().backward();
  optimizer.step();
  return {optimizer.second_moment(net->first->weight),
          optimizer.second_moment(net->second->weight)};
}

TEST_F(OfferedSquaresCuda, AreWhatTheOptimizerUses) {
  const auto usual = moments_of_step([](torch::Tensor& /*hidden*/) {});
  const auto of_others = moments_of_step([](torch::Tensor& hidden) {
    // In a tensor of its own, with which nothing was offered before.
    hidden = hidden * 1.0;
    offer_squares(hidden.detach(), 4.0 * exact_squares(hidden).unsqueeze(0));
  });
  EXPECT_LE(relative_distance(of_others[0], usual[0]), 1e-12);
  EXPECT_LE(relative_distance(of_others[1], 4.0 * usual[1]), 1e-12);
}

TEST_F(OfferedSquaresCuda, OfAnInputThatWasChangedSinceAreMeasuredAnew) {
  const auto usual = moments_of_step([](torch::Tensor& /*hidden*/) {});
  const auto changed = moments_of_step([](torch::Tensor& hidden) { hidden.mul_(2.0); });
  EXPECT_LE(relative_distance(changed[0], usual[0]), 1e-12);
  EXPECT_LE(relative_distance(changed[1], 4.0 * usual[1]), 1e-12);
}

/// Blocks of convolutions with all that reads what a normalisation wrote.
struct ConvolutionNetImpl : torch::nn::Module {
  ConvolutionNetImpl() {
    const auto make = [&](const char* name, std::int64_t in, std::int64_t kernel,
                          std::int64_t stride) {
      const auto options =
          torch::nn::Conv2dOptions(in, 16, kernel).stride(stride).padding(kernel / 2).bias(false);
      convolutions.push_back(register_module(name, torch::nn::Conv2d(options)));
    };
    make("stem", 3, 3, 1);
    make("window", 16, 3, 1);
    make("again", 16, 3, 1);
    make("strided", 16, 3, 2);
    make("pixel", 16, 1, 1);
    make("last", 16, 3, 1);
    for (const char* name : {"bn1", "bn2", "bn3", "bn4", "bn5"}) {
      norms.push_back(register_module(name, torch::nn::BatchNorm2d(16)));
    }
  }

  torch::Tensor forward(const torch::Tensor& images) {
    auto x = adaact::batch_norm_add_relu(norms[0], read(0, images), {});
    const auto y = adaact::batch_norm_relu(norms[1], read(1, x.onward));
    x = adaact::batch_norm_add_relu(norms[2], read(2, y), x.around);
    const auto z = adaact::batch_norm_relu(norms[3], read(3, x.onward));
    x = adaact::batch_norm_relu_around(norms[4], read(4, z));
    return read(5, x.onward) + x.around;
  }

  torch::Tensor read(std::size_t index, const torch::Tensor& x) {
    inputs.push_back(x.detach());
    // cuDNN lays out float64 otherwise.
    return adaact::convolution(convolutions[index], x)
        .contiguous(torch::MemoryFormat::ChannelsLast);
  }

  std::vector<torch::nn::Conv2d> convolutions;
  std::vector<torch::nn::BatchNorm2d> norms;
  Tensors inputs;  // of the convolutions
};
TORCH_MODULE(ConvolutionNet);

ConvolutionNet make_convolution_net(torch::ScalarType dtype) {
  torch::manual_seed(17);
  ConvolutionNet net;
  net->to(torch::kCUDA, dtype);
  return net;
}

torch::Tensor draw_images(std::vector<std::int64_t> shape, torch::ScalarType dtype) {
  return normal(std::move(shape), dtype).contiguous(torch::MemoryFormat::ChannelsLast);
}

TEST_F(OfferedSquaresCuda, OfBatchNormComeWithWhatConvolutionsRead) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    auto net = make_convolution_net(dtype);
    const AdaAct optimizer(*net);
    net->forward(draw_images({9, 3, 12, 10}, dtype));
    ASSERT_EQ(net->inputs.size(), net->convolutions.size());
    EXPECT_FALSE(offered_squares(net->inputs[0]).defined());
    for (std::size_t i = 1; i < net->inputs.size(); ++i) {
      const auto parts = offered_squares(net->inputs[i]);
      ASSERT_TRUE(parts.defined()) << torch::toString(dtype) << " " << i;
      expect_squares_of(net->inputs[i].permute({0, 2, 3, 1}), parts);
    }
  }
}

/// AdaAct's second moments of the convolutions after one step, of inputs that are large enough for borders to pay.
Tensors moments_of_convolutions(torch::ScalarType dtype, int passes) {
  auto net = make_convolution_net(dtype);
  AdaAct optimizer(*net, AdaActOptions(1e-3));
  for (int pass = 0; pass < passes; ++pass) {
    net->forward(draw_images({600, 3, 32, 20}, dtype)).square().sum().backward();
  }
  optimizer.step();
  Tensors moments;
  for (const auto& layer : net->convolutions) {
    moments.push_back(optimizer.second_moment(layer->weight));
  }
  return moments;
}

TEST_F(OfferedSquaresCuda, GiveConvolutionsTheSecondMomentsOfPlainLayers) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    for (const int passes : {1, 2}) {
      const auto fused = moments_of_convolutions(dtype, passes);
      const PlainLayers plain;
      const auto expected = moments_of_convolutions(dtype, passes);
      for (std::size_t i = 0; i < fused.size(); ++i) {
        EXPECT_LE(relative_distance(fused[i], expected[i]), dtype == torch::kFloat64 ? 1e-9 : 1e-3)
            << torch::toString(dtype) << " " << i;
      }
    }
  }
}

TEST_F(OfferedSquaresCuda, OfImagesThatAreChangedBeforeTheStepAreAnError) {
  auto net = make_convolution_net(torch::kFloat64);
  AdaAct optimizer(*net, AdaActOptions(1e-3));
  const auto output = net->forward(draw_images({9, 3, 12, 10}, torch::kFloat64));
  output.square().sum().backward();
  net->inputs[2].mul_(2.0);  // the detached one has the version of the original
  EXPECT_THROW(optimizer.step(), c10::Error);
}

/// The same of every layer of a small transformer, by name.
std::vector<std::pair<std::string, torch::Tensor>> moments_of_transformer(torch::ScalarType dtype,
                                                                          bool autocast,
                                                                          int passes) {
  torch::manual_seed(11);
  adaact::VisionTransformerOptions options;
  options.image_size = 16;
  options.patch_size = 4;
  options.classes = 5;
  options.width = 32;
  options.depth = 3;
  options.heads = 2;
  adaact::VisionTransformer model(options);
  model.to(torch::kCUDA, dtype);
  AdaAct optimizer(model, AdaActOptions(1e-3));
  for (int pass = 0; pass < passes; ++pass) {
    const auto images = normal({6, 3, 16, 16}, dtype);
    const adaact::AutocastScope scope(images.device(), autocast);
    model.forward(images).to(torch::kFloat64).square().sum().backward();
  }
  optimizer.step();
  std::vector<std::pair<std::string, torch::Tensor>> moments;
  for (const auto& parameter : model.named_parameters()) {
    const auto& name = parameter.key();
    const bool is_weight = parameter.value().dim() > 1 && name.find("weight") != std::string::npos;
    if (is_weight) moments.emplace_back(name, optimizer.second_moment(parameter.value()));
  }
  return moments;
}

TEST_F(OfferedSquaresCuda, GiveTheSecondMomentsOfPlainLayers) {
  struct Case {
    torch::ScalarType dtype;
    bool autocast;
    double tolerance;
  };
  for (const auto& of : {Case{torch::kFloat64, false, 1e-9}, Case{torch::kFloat32, false, 1e-3},
                         Case{torch::kFloat32, true, 0.1}}) {
    SCOPED_TRACE(std::string(torch::toString(of.dtype)) + (of.autocast ? " autocast" : ""));
    for (const int passes : {1, 2}) {
      const auto fused = moments_of_transformer(of.dtype, of.autocast, passes);
      const PlainLayers plain;
      const auto expected = moments_of_transformer(of.dtype, of.autocast, passes);
      ASSERT_EQ(fused.size(), expected.size());
      for (std::size_t i = 0; i < fused.size(); ++i) {
        EXPECT_LE(relative_distance(fused[i].second, expected[i].second), of.tolerance)
            << fused[i].first;
      }
    }
  }
}

}  // namespace
