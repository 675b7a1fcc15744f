// The loss of a classifier in one kernel against LibTorch's operators. Skips, visibly, where there is no GPU.

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <ATen/cuda/CUDAGraph.h>
#include <adaact/models/registry.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "layers/cross_entropy_cuda.h"
#include "layers/plain_layers.h"
#include "train/step/classification_pass.h"

namespace {

using adaact::cross_entropy_cuda;
using adaact::CrossEntropy;

const auto kLabels = torch::dtype(torch::kLong).device(torch::kCUDA);
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class CrossEntropyCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(23);
  }
};

/// By autograd, from logits cast to a dtype in which the loss is computed.
CrossEntropy by_operators(const torch::Tensor& logits, const torch::Tensor& labels,
                          double smoothing, double divisor, torch::ScalarType dtype) {
  const auto leaf = logits.detach().clone().requires_grad_();
  const auto loss = torch::cross_entropy_loss(leaf.to(dtype), labels, {}, at::Reduction::Sum,
                                              /*ignore_index=*/-100, smoothing) /
                    divisor;
  loss.backward();
  return {loss.detach(), logits.argmax(1).eq(labels).sum(), leaf.grad()};
}

double distance(const torch::Tensor& a, const torch::Tensor& b) {
  const auto expected = b.to(torch::kFloat64);
  return (a.to(torch::kFloat64) - expected).norm().item<double>() /
         (1e-30 + expected.norm().item<double>());
}

/// Equal numbers, and what is not a number in the same places.
bool same(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() &&
         torch::allclose(a.to(torch::kFloat64), b.to(torch::kFloat64), 1e-5, 1e-7,
                         /*equal_nan=*/true);
}

struct Size {
  std::int64_t rows, classes;
};

std::vector<Size> sizes() {
  std::vector<Size> sizes{{1, 1},     {1, 10},      {5, 1},     {128, 10},  {128, 100}, {256, 1000},
                          {4096, 10}, {4096, 1000}, {3, 5000},  {32768, 2}, {1, 70000}, {65, 1009},
                          {70000, 1}, {1000, 66},   {2048, 32}, {2049, 32}};
  std::mt19937 random(3);
  std::uniform_int_distribution<std::int64_t> rows(1, 400);
  std::uniform_int_distribution<std::int64_t> classes(1, 300);
  for (int i = 0; i < 60; ++i) sizes.push_back({rows(random), classes(random)});
  return sizes;
}

TEST_F(CrossEntropyCuda, IsThatOfTheOperators) {
  for (const auto& size : sizes()) {
    for (const double smoothing : {0.0, 0.1}) {
      SCOPED_TRACE(std::to_string(size.rows) + "×" + std::to_string(size.classes) + " smoothing " +
                   std::to_string(smoothing));
      const auto divisor = static_cast<double>(size.rows) + 3.0;
      const auto labels = torch::randint(size.classes, {size.rows}, kLabels);
      const auto exact_logits = torch::randn({size.rows, size.classes},
                                             torch::dtype(torch::kFloat64).device(torch::kCUDA)) *
                                4.0;
      for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kHalf}) {
        SCOPED_TRACE(torch::toString(dtype));
        const auto logits = exact_logits.to(dtype);
        const auto ours = cross_entropy_cuda(logits, labels, smoothing, divisor);
        const auto wide = dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
        const auto usual = by_operators(logits, labels, smoothing, divisor, wide);
        EXPECT_EQ(ours.loss.scalar_type(), wide);
        EXPECT_EQ(ours.loss.dim(), 0);
        EXPECT_EQ(ours.gradient.scalar_type(), dtype);
        EXPECT_EQ(ours.hits.item<std::int64_t>(), usual.hits.item<std::int64_t>());
        const auto right =
            by_operators(logits.to(torch::kFloat64), labels, smoothing, divisor, torch::kFloat64);
        if (size.classes == 1) {  // all is zero, or nearly so
          EXPECT_LE(ours.loss.abs().item<double>(), 1e-6);
          EXPECT_LE(ours.gradient.abs().max().item<double>(), 1e-6);
          continue;
        }
        const double slack = dtype == torch::kFloat64 ? 1e-9 : 1e-6;
        EXPECT_LE(distance(ours.loss, right.loss), 1.2 * distance(usual.loss, right.loss) + slack);
        EXPECT_LE(distance(ours.gradient, right.gradient),
                  1.2 * distance(usual.gradient, right.gradient) + slack);
      }
    }
  }
}

TEST_F(CrossEntropyCuda, RowsMayBeApart) {
  const auto options = torch::dtype(torch::kFloat64).device(torch::kCUDA);
  const auto labels = torch::randint(11, {37}, kLabels);
  const auto in_wide_rows = torch::randn({37, 20}, options).narrow(1, 5, 11);
  const auto by_columns = torch::randn({11, 37}, options).t();
  const auto one_row_for_all = torch::randn({1, 11}, options).expand({37, 11});
  for (const auto& logits : {in_wide_rows, by_columns, one_row_for_all}) {
    const auto ours = cross_entropy_cuda(logits, labels, 0.1, 37.0);
    const auto usual = by_operators(logits.contiguous(), labels, 0.1, 37.0, torch::kFloat64);
    EXPECT_LE(distance(ours.loss, usual.loss), 1e-9);
    EXPECT_LE(distance(ours.gradient, usual.gradient), 1e-9);
    EXPECT_TRUE(ours.hits.equal(usual.hits));
  }
}

TEST_F(CrossEntropyCuda, TheFirstOfEqualMaximaIsTheAnswer) {
  for (const std::int64_t classes : {3, 10, 100, 1000}) {
    const auto logits = torch::randint(2, {600, classes}, kLabels).to(torch::kFloat32);
    const auto labels = torch::randint(std::min<std::int64_t>(classes, 4), {600}, kLabels);
    const auto ours = cross_entropy_cuda(logits, labels, 0.0, 1.0);
    EXPECT_EQ(ours.hits.item<std::int64_t>(),
              logits.argmax(1).eq(labels).sum().item<std::int64_t>());
    const auto equal = torch::zeros({600, classes}, torch::kCUDA);
    EXPECT_EQ(
        cross_entropy_cuda(equal, torch::zeros_like(labels), 0.0, 1.0).hits.item<std::int64_t>(),
        600);
  }
}

TEST_F(CrossEntropyCuda, WhatIsNotFiniteIsAsTheOperatorsHaveIt) {
  for (const std::int64_t classes : {7, 200}) {
    for (const double smoothing : {0.0, 0.1}) {
      for (const double value : {kNan, kInfinity, -kInfinity}) {
        for (const std::int64_t place : {0, 2, 6}) {
          SCOPED_TRACE(std::to_string(value) + " at " + std::to_string(place) + " of " +
                       std::to_string(classes) + " smoothing " + std::to_string(smoothing));
          const auto logits = torch::randn({9, classes}, torch::kCUDA);
          logits[4][place] = value;
          if (std::isnan(value)) logits[4][classes - 1] = value;
          for (const std::int64_t label : {0, 2}) {
            const auto labels = torch::full({9}, label, kLabels);
            const auto ours = cross_entropy_cuda(logits, labels, smoothing, 9.0);
            const auto usual = by_operators(logits, labels, smoothing, 9.0, torch::kFloat32);
            EXPECT_TRUE(same(ours.loss, usual.loss)) << ours.loss << usual.loss;
            EXPECT_TRUE(same(ours.gradient, usual.gradient));
            EXPECT_TRUE(ours.hits.equal(usual.hits));
          }
        }
      }
    }
  }
  const auto nothing_is_likely = torch::full({2, 5}, -kInfinity, torch::kCUDA);
  const auto labels = torch::zeros({2}, kLabels);
  const auto ours = cross_entropy_cuda(nothing_is_likely, labels, 0.0, 2.0);
  EXPECT_TRUE(std::isnan(ours.loss.item<double>()));
  EXPECT_EQ(ours.hits.item<std::int64_t>(), 2);
}

TEST_F(CrossEntropyCuda, ALabelThatIsNoClassMakesItsRowNaN) {
  for (const std::int64_t rows : {8, 20000}) {
    const auto logits = torch::randn({rows, 10}, torch::kCUDA);
    for (const std::int64_t wrong :
         {std::int64_t{10}, std::int64_t{-1}, std::int64_t{-100},
          std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min(),
          std::int64_t{1} << 32}) {
      const auto labels = torch::randint(10, {rows}, kLabels);
      labels[3] = wrong;
      const auto ours = cross_entropy_cuda(logits, labels, 0.1, 8.0);
      EXPECT_TRUE(std::isnan(ours.loss.item<double>())) << wrong;
      const auto is_nan = ours.gradient.isnan();
      EXPECT_TRUE(is_nan[3].all().item<bool>()) << wrong;
      EXPECT_EQ(is_nan.sum().item<std::int64_t>(), 10) << wrong;
      EXPECT_EQ(ours.hits.item<std::int64_t>(),
                logits.argmax(1).eq(labels).sum().item<std::int64_t>());
    }
  }
}

TEST_F(CrossEntropyCuda, EqualInputsGiveEqualBits) {
  for (const auto& size : {Size{128, 100}, Size{256, 1000}, Size{4096, 1000}}) {
    const auto logits =
        torch::randn({size.rows, size.classes}, torch::kCUDA).to(torch::kBFloat16) * 3;
    const auto labels = torch::randint(size.classes, {size.rows}, kLabels);
    const auto once = cross_entropy_cuda(logits, labels, 0.1, 128.0);
    for (int i = 0; i < 5; ++i) {
      const auto again = cross_entropy_cuda(logits, labels, 0.1, 128.0);
      EXPECT_TRUE(once.loss.equal(again.loss));
      EXPECT_TRUE(once.hits.equal(again.hits));
      EXPECT_TRUE(once.gradient.equal(again.gradient));
    }
  }
}

TEST_F(CrossEntropyCuda, IsCapturedInAGraph) {
  for (const auto& size : {Size{128, 10}, Size{256, 1000}}) {
    const auto logits = torch::randn({size.rows, size.classes}, torch::kCUDA);
    const auto labels = torch::randint(size.classes, {size.rows}, kLabels);
    const auto expected = cross_entropy_cuda(logits, labels, 0.1, 128.0);
    const auto other = torch::randn_like(logits);
    const auto expected_of_other = cross_entropy_cuda(other, labels, 0.1, 128.0);
    const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
    torch::cuda::synchronize();
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    const auto captured = cross_entropy_cuda(logits, labels, 0.1, 128.0);
    graph.capture_end();
    graph.replay();
    EXPECT_TRUE(captured.loss.equal(expected.loss));
    EXPECT_TRUE(captured.gradient.equal(expected.gradient));
    logits.copy_(other);
    graph.replay();
    EXPECT_TRUE(captured.loss.equal(expected_of_other.loss));
    EXPECT_TRUE(captured.hits.equal(expected_of_other.hits));
    EXPECT_TRUE(captured.gradient.equal(expected_of_other.gradient));
    torch::cuda::synchronize();
  }
}

/// Loss, hits and gradients of two passes of which a step may be made.
std::vector<torch::Tensor> passed(bool bf16) {
  torch::manual_seed(5);
  const auto model = adaact::make_model("lenet5", adaact::default_model_options("lenet5"));
  model->to(torch::kCUDA);
  adaact::PassSettings settings;
  settings.device = torch::kCUDA;
  settings.bf16 = bf16;
  settings.label_smoothing = 0.1;
  std::vector<torch::Tensor> results;
  for (int i = 0; i < 2; ++i) {
    const auto images = torch::randn({16, 3, 32, 32}, torch::kCUDA);
    const auto labels = torch::randint(10, {16}, kLabels);
    const auto pass =
        adaact::training_pass(*model, images, {labels}, /*images_of_step=*/32, settings);
    EXPECT_FALSE(pass.loss.requires_grad());
    EXPECT_FALSE(pass.logits.requires_grad());
    results.push_back(pass.loss);
    results.push_back(pass.correct({labels}));
  }
  for (const auto& parameter : model->parameters()) results.push_back(parameter.grad());
  return results;
}

/// The model has no layers that are fused: what differs is the loss.
TEST_F(CrossEntropyCuda, TrainingPassesAreThePlainOnes) {
  const auto fused = passed(/*bf16=*/false);
  const auto fused_bf16 = passed(/*bf16=*/true);
  const adaact::PlainLayers plain;
  const auto expected = passed(/*bf16=*/false);
  const auto expected_bf16 = passed(/*bf16=*/true);
  ASSERT_EQ(fused.size(), expected.size());
  for (std::size_t i = 0; i < fused.size(); ++i) {
    EXPECT_LE(distance(fused[i], expected[i]), 1e-4) << "tensor " << i;
    EXPECT_LE(distance(fused_bf16[i], expected_bf16[i]), 1e-2) << "tensor " << i;
  }
}

}  // namespace
