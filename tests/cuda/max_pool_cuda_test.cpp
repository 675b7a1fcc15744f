// The maximum of windows on a GPU against LibTorch's. Skips, visibly, where there is none.

#include <algorithm>
#include <limits>
#include <random>
#include <string>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "kernels/gpu.h"
#include "layers/max_pool.h"
#include "layers/max_pool_cuda.h"
#include "layers/plain_layers.h"

namespace {

using adaact::max_pool;

const auto kDouble = torch::dtype(torch::kFloat64).device(torch::kCUDA);

class MaxPoolCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(31);
  }

  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }

  std::mt19937 random_{41};
};

struct Windows {
  std::int64_t kernel, stride, padding;
};

torch::MemoryFormat format_of(bool channels_last) {
  return channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous;
}

struct Pooling {
  torch::Tensor output, gradient;
};

Pooling pooled(const torch::Tensor& x, const Windows& windows, const torch::Tensor& weight) {
  const auto leaf = x.detach().requires_grad_();
  const auto output = max_pool(leaf, windows.kernel, windows.stride, windows.padding);
  output.backward(weight);
  return {output.detach(), leaf.grad()};
}

bool equal_with_nan(const torch::Tensor& a, const torch::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.isnan().equal(b.isnan()) &&
         a.nan_to_num().equal(b.nan_to_num());
}

/// Outputs are equal. Gradients are sums of few, which LibTorch may add up in another order.
void expect_as_plain(const torch::Tensor& x, const Windows& windows) {
  SCOPED_TRACE("kernel " + std::to_string(windows.kernel) + " stride " +
               std::to_string(windows.stride) + " padding " + std::to_string(windows.padding));
  torch::Tensor weight;
  Pooling expected;
  {
    const adaact::PlainLayers plain;
    const torch::NoGradGuard no_grad;
    weight = torch::randn_like(max_pool(x, windows.kernel, windows.stride, windows.padding));
  }
  {
    const adaact::PlainLayers plain;
    expected = pooled(x, windows, weight);
  }
  const auto ours = pooled(x, windows, weight);
  EXPECT_TRUE(equal_with_nan(ours.output, expected.output));
  if (x.is_contiguous() != x.is_contiguous(torch::MemoryFormat::ChannelsLast)) {
    EXPECT_EQ(ours.output.is_contiguous(), expected.output.is_contiguous());
  }
  ASSERT_EQ(ours.gradient.scalar_type(), x.scalar_type());
  ASSERT_EQ(ours.gradient.sizes(), x.sizes());
  if (x.scalar_type() == torch::kFloat64) {
    EXPECT_TRUE(torch::allclose(ours.gradient, expected.gradient, 1e-9, 1e-12));
  } else {
    torch::Tensor exact;
    {
      const adaact::PlainLayers plain;
      exact = pooled(x.to(torch::kFloat64), windows, weight.to(torch::kFloat64)).gradient;
    }
    const auto apart = [&](const torch::Tensor& gradient) {
      return (gradient.to(torch::kFloat64) - exact).norm().item<double>();
    };
    EXPECT_LE(apart(ours.gradient), 1.2 * apart(expected.gradient) + 1e-6);
  }
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(equal_with_nan(max_pool(x, windows.kernel, windows.stride, windows.padding),
                             expected.output));
}

TEST_F(MaxPoolCuda, IsThePlainOneForDrawnShapes) {
  for (int i = 0; i < 300; ++i) {
    Windows windows{};
    windows.kernel = draw(1, i % 5 == 0 ? 15 : 5);
    windows.stride = draw(1, 4);
    windows.padding = draw(0, windows.kernel / 2);
    const auto least = std::max<std::int64_t>(1, windows.kernel - 2 * windows.padding);
    const auto x = torch::randn({draw(1, 4), draw(1, 2) == 1 ? draw(1, 20) : 8 * draw(1, 4),
                                 draw(least, least + 12), draw(least, least + 12)},
                                kDouble)
                       .contiguous(format_of(draw(0, 1) == 1));
    SCOPED_TRACE(torch::str(x.sizes(), " strides ", x.strides()));
    expect_as_plain(x, windows);
  }
}

TEST_F(MaxPoolCuda, IsThePlainOneInEveryDtype) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kHalf}) {
    for (const bool channels_last : {true, false}) {
      for (const std::int64_t channels : {1, 7, 12, 64}) {
        SCOPED_TRACE(torch::str(torch::toString(dtype), channels_last ? " last " : " ", channels));
        const auto x = torch::randn({5, channels, 23, 30}, kDouble)
                           .to(dtype)
                           .contiguous(format_of(channels_last));
        expect_as_plain(x, {3, 2, 1});
        expect_as_plain(x, {2, 2, 0});
        expect_as_plain(x, {3, 1, 1});
        expect_as_plain(x, {5, 2, 2});
      }
    }
  }
}

TEST_F(MaxPoolCuda, TheFirstOfEqualMaximaWins) {
  for (const bool channels_last : {true, false}) {
    const auto x =
        torch::randint(0, 3, {4, 16, 20, 20}, kDouble).contiguous(format_of(channels_last));
    expect_as_plain(x, {3, 2, 1});
    expect_as_plain(x, {4, 3, 2});
    expect_as_plain(x.relu() * 0.0, {3, 2, 1});
  }
}

TEST_F(MaxPoolCuda, WhatIsNotANumberWins) {
  for (const bool channels_last : {true, false}) {
    const auto x = torch::randn({2, 16, 20, 20}, kDouble)
                       .masked_fill(torch::rand({2, 16, 20, 20}, kDouble) < 0.1,
                                    std::numeric_limits<double>::quiet_NaN())
                       .masked_fill(torch::rand({2, 16, 20, 20}, kDouble) < 0.01,
                                    -std::numeric_limits<double>::infinity())
                       .contiguous(format_of(channels_last));
    expect_as_plain(x, {3, 2, 1});
    expect_as_plain(x, {3, 3, 0});
  }
}

TEST_F(MaxPoolCuda, WindowsOfMinusInfinityHaveAWinner) {
  const auto x = torch::full({2, 8, 9, 9}, -std::numeric_limits<double>::infinity(), kDouble);
  for (const bool channels_last : {true, false}) {
    const auto ours = pooled(x.contiguous(format_of(channels_last)), {3, 2, 1},
                             torch::ones({2, 8, 5, 5}, kDouble));
    EXPECT_TRUE(ours.output.isinf().all().item<bool>());
    EXPECT_EQ(ours.gradient.sum().item<double>(), 2 * 8 * 5 * 5);
  }
}

TEST_F(MaxPoolCuda, WhatHasNoKernelIsLeftToLibTorch) {
  const auto x = torch::randn({2, 4, 40, 40}, kDouble);
  expect_as_plain(x, {17, 3, 8});
  expect_as_plain(x.narrow(1, 1, 2), {3, 2, 1});
  expect_as_plain(x.transpose(2, 3), {3, 2, 1});
  EXPECT_THROW(max_pool(x, 3, 2, 2), c10::Error);
  EXPECT_THROW(max_pool(x, 3, 0, 1), c10::Error);
  EXPECT_THROW(max_pool(torch::randn({1, 1, 2, 2}, kDouble), 5, 1, 0), c10::Error);
}

TEST_F(MaxPoolCuda, GradientsCanBeDifferentiatedOnceMore) {
  const auto second = [](const torch::Tensor& x) {
    const auto y = max_pool(x, 3, 2, 1);
    const auto first = torch::autograd::grad({(y * y * y).sum()}, {x}, {}, true, true)[0];
    return torch::autograd::grad({(first * first.sin()).sum()}, {x})[0];
  };
  for (const bool channels_last : {true, false}) {
    const auto x =
        torch::randn({3, 8, 11, 14}, kDouble).contiguous(format_of(channels_last)).requires_grad_();
    const auto ours = second(x);
    const adaact::PlainLayers plain;
    EXPECT_TRUE(torch::allclose(ours, second(x), 1e-9, 1e-12));
  }
}

TEST_F(MaxPoolCuda, EqualInputsGiveEqualBits) {
  const auto x = torch::randn({32, 64, 56, 56}, torch::kCUDA)
                     .to(torch::kBFloat16)
                     .contiguous(torch::MemoryFormat::ChannelsLast);
  const auto weight = torch::randn({32, 64, 28, 28}, torch::kCUDA)
                          .to(torch::kBFloat16)
                          .contiguous(torch::MemoryFormat::ChannelsLast);
  const auto once = pooled(x, {3, 2, 1}, weight);
  const auto again = pooled(x, {3, 2, 1}, weight);
  EXPECT_TRUE(once.output.equal(again.output));
  EXPECT_TRUE(once.gradient.equal(again.gradient));
}

TEST_F(MaxPoolCuda, GradientsInAnotherOrderAreRead) {
  const auto x = torch::randn({3, 16, 12, 12}, kDouble).contiguous(format_of(true));
  const auto weight = torch::randn({3, 16, 6, 6}, kDouble);
  const auto ours = pooled(x, {3, 2, 1}, weight);
  const auto of_one = pooled(x, {3, 2, 1}, torch::ones({1}, kDouble).expand({3, 16, 6, 6}));
  const adaact::PlainLayers plain;
  EXPECT_TRUE(torch::allclose(ours.gradient, pooled(x, {3, 2, 1}, weight).gradient, 1e-9, 1e-12));
  EXPECT_EQ(of_one.gradient.sum().item<double>(), 3 * 16 * 6 * 6);
}

TEST_F(MaxPoolCuda, TheInputIsNotKept) {
  const torch::Device device(torch::kCUDA, 0);
  const auto leaf = torch::randn({64, 64, 64, 64}, torch::kCUDA)
                        .contiguous(torch::MemoryFormat::ChannelsLast)
                        .requires_grad_();
  const auto before = adaact::gpu_memory(device).in_use;
  const auto y = max_pool(leaf * 2.0, 3, 2, 1);
  const auto kept = adaact::gpu_memory(device).in_use - before;
  // The output in float32 and a byte for each of its elements; the input would be four times the output.
  EXPECT_LE(kept, static_cast<std::int64_t>(y.numel()) * 5 + (1 << 21));
}

TEST_F(MaxPoolCuda, IsCapturedInAGraph) {
  const adaact::PoolWindow window{3, 2, 1};
  const auto x = torch::randn({8, 16, 30, 30}, torch::kCUDA);
  const auto expected = adaact::max_pool_forward_cuda(x, window, true);
  const auto expected_dx =
      adaact::max_pool_backward_cuda(expected.output, expected.winners, window, 30, 30);
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
  torch::cuda::synchronize();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  const auto captured = adaact::max_pool_forward_cuda(x, window, true);
  const auto dx = adaact::max_pool_backward_cuda(captured.output, captured.winners, window, 30, 30);
  graph.capture_end();
  graph.replay();
  EXPECT_TRUE(captured.output.equal(expected.output));
  EXPECT_TRUE(captured.winners.equal(expected.winners));
  EXPECT_TRUE(dx.equal(expected_dx));
  torch::cuda::synchronize();
}

}  // namespace
