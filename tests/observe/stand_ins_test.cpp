#include "observe/stand_ins.h"

#include <thread>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "observe/recording_listener.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::StandIns;

/// A copy in another dtype, through which autograd finds the parameter.
torch::Tensor wide(const torch::Tensor& parameter) { return parameter.to(torch::kFloat64); }

torch::Tensor drawn(at::IntArrayRef sizes) { return torch::randn(sizes, torch::kFloat64); }

TEST(StandIns, ACopyIsObservedAsItsParameter) {
  torch::nn::Conv2d convolution(3, 4, 3);
  torch::nn::Linear linear(4 * 6 * 6, 5);
  torch::nn::Sequential model(convolution, torch::nn::Flatten(), linear);
  Watch watch(*model);
  StandIns stand_ins;
  const auto kernel = wide(convolution->weight);
  const auto weight = wide(linear->weight);
  const auto bias = wide(linear->bias);
  stand_ins.add(kernel, convolution->weight);
  stand_ins.add(weight, linear->weight);
  stand_ins.add(bias, linear->bias);
  const auto x = drawn({2, 3, 8, 8});
  const auto hidden = torch::conv2d(x, kernel).flatten(1);
  torch::linear(hidden, weight, bias).square().sum().backward();
  watch.observer.rethrow_failure();
  ASSERT_EQ(watch.weights(), (Names{"0.weight", "2.weight"}));
  EXPECT_TRUE(bit_identical(watch.inputs()[0].input, x));
  EXPECT_TRUE(bit_identical(watch.inputs()[1].input, hidden));
  EXPECT_EQ(watch.inputs()[0].use.geometry.kernel, (std::vector<std::int64_t>{3, 3}));
  EXPECT_FALSE(watch.inputs()[0].use.bias);
  const auto seen_bias = watch.inputs()[1].use.bias;
  ASSERT_TRUE(seen_bias);
  EXPECT_EQ(watch.observer.map().parameters()[*seen_bias].name, "2.bias");
  // G = Σ s aᵀ
  ASSERT_EQ(watch.listener->gradients.size(), 2U);
  const auto& gradient = watch.listener->gradients[0].input;
  EXPECT_TRUE(
      all_close(gradient.t().matmul(hidden).to(torch::kFloat32), linear->weight.grad(), 1e-5));
  EXPECT_TRUE(watch.listener->unrecorded.empty());
}

TEST(StandIns, ACopyWhoseGradientSomebodyElseMakesIsRecorded) {
  torch::nn::Conv2d convolution(3, 4, 3);
  torch::nn::Sequential model(convolution);
  Watch watch(*model);
  const auto x = drawn({2, 3, 8, 8}).requires_grad_();
  const auto use = [&](StandIns::Gradient gradient) {
    StandIns stand_ins;
    const auto constant = wide(convolution->weight).detach();
    stand_ins.add(constant, convolution->weight, gradient);
    torch::conv2d(x, constant).square().sum().backward();
    watch.observer.rethrow_failure();
  };
  use(StandIns::Gradient::ByOperator);
  EXPECT_EQ(watch.listener->gradients.size(), 0U);
  EXPECT_EQ(watch.listener->unrecorded.size(), 1U);
  use(StandIns::Gradient::BySomebodyElse);
  EXPECT_EQ(watch.listener->gradients.size(), 1U);
  EXPECT_EQ(watch.listener->unrecorded.size(), 1U);
  EXPECT_EQ(watch.weights(), (Names{"0.weight", "0.weight"}));
}

TEST(StandIns, AViewOfACopyIsTheSameViewOfItsParameter) {
  torch::nn::Conv2d convolution(2, 6, 3);
  torch::nn::Linear linear(5, 6);
  torch::nn::Sequential model(convolution, linear);
  Watch watch(*model);
  StandIns stand_ins;
  const auto kernel = wide(convolution->weight);
  const auto weight = wide(linear->weight);
  stand_ins.add(kernel, convolution->weight);
  stand_ins.add(weight, linear->weight);
  torch::linear(drawn({4, 18}), kernel.flatten(1));
  torch::mm(drawn({4, 5}), weight.t());
  torch::linear(drawn({4, 5}), weight.narrow(0, 2, 3));
  watch.observer.rethrow_failure();
  ASSERT_EQ(watch.weights(), (Names{"0.weight", "1.weight", "1.weight"}));
  EXPECT_EQ(watch.inputs()[1].use.row_begin, 0);
  EXPECT_EQ(watch.inputs()[1].use.row_end, 6);
  EXPECT_EQ(watch.inputs()[2].use.row_begin, 2);
  EXPECT_EQ(watch.inputs()[2].use.row_end, 5);
}

TEST(StandIns, ACopyThatIsUsedOtherwiseThanAWeightIsNoUse) {
  torch::nn::Linear model(4, 4);
  Watch watch(*model);
  StandIns stand_ins;
  const auto weight = wide(model->weight);
  stand_ins.add(weight, model->weight);
  drawn({3, 4}).matmul(weight);
  torch::mm(drawn({3, 2}), weight.t().narrow(0, 1, 2));
  EXPECT_TRUE(watch.inputs().empty());
  watch.observer.rethrow_failure();
}

TEST(StandIns, ParametersThatAreViewsAreFound) {
  const auto buffer = torch::randn({40});
  const auto weight = buffer.narrow(0, 8, 12).view({3, 4}).requires_grad_();
  Watch watch(adaact::LayerMap(adaact::NamedTensors{{"weight", weight}}));
  StandIns stand_ins;
  const auto copy = wide(weight);
  stand_ins.add(copy, weight);
  torch::linear(drawn({2, 4}), copy);
  torch::mm(drawn({2, 4}), copy.t());
  EXPECT_EQ(watch.weights(), (Names{"weight", "weight"}));
}

TEST(StandIns, WhatDoesNotLeadBackToTheParameterIsAnUnrecordedUse) {
  torch::nn::Linear model(4, 3);
  Watch watch(*model);
  StandIns stand_ins;
  const auto weight = wide(model->weight.detach());
  stand_ins.add(weight, model->weight);
  torch::linear(drawn({2, 4}).requires_grad_(), weight).sum().backward();
  EXPECT_EQ(watch.inputs().size(), 1U);
  EXPECT_EQ(watch.listener->unrecorded.size(), 1U);
  EXPECT_TRUE(watch.listener->gradients.empty());
}

TEST(StandIns, OutputGradientsComeInPassesThatMakeTheGradientOfTheParameter) {
  torch::nn::Linear model(4, 3);
  Watch watch(*model);
  StandIns stand_ins;
  const auto weight = wide(model->weight);
  stand_ins.add(weight, model->weight);
  const auto x = drawn({5, 4}).requires_grad_();
  const auto z = torch::linear(x, weight).sum();
  torch::autograd::grad({z}, {x}, {}, /*retain_graph=*/true);
  EXPECT_TRUE(watch.listener->gradients.empty());
  torch::autograd::grad({z}, {model->weight}, {}, /*retain_graph=*/true);
  z.backward();
  ASSERT_EQ(watch.listener->passes.size(), 2U);
  EXPECT_FALSE(watch.listener->passes[0].is_added);
  EXPECT_TRUE(watch.listener->passes[1].is_added);
}

TEST(StandIns, HoldForTheirThreadWhileTheyLive) {
  torch::nn::Linear model(4, 3);
  Watch watch(*model);
  const auto outer_copy = wide(model->weight);
  const auto inner_copy = wide(model->weight);
  const auto use_both = [&] {
    torch::linear(drawn({2, 4}), outer_copy);
    torch::linear(drawn({2, 4}), inner_copy);
    return watch.inputs().size();
  };
  {
    StandIns outer;
    outer.add(outer_copy, model->weight);
    {
      StandIns inner;
      inner.add(inner_copy, model->weight);
      EXPECT_EQ(use_both(), 2U);
    }
    EXPECT_EQ(use_both(), 3U);
    std::thread([&] { use_both(); }).join();
    EXPECT_EQ(watch.inputs().size(), 3U);
  }
  EXPECT_EQ(use_both(), 3U);
}

TEST(StandIns, KeepNothingBeyondTheirLife) {
  torch::nn::Linear model(4, 3);
  const auto copy = wide(model->weight);
  {
    StandIns stand_ins;
    stand_ins.add(copy, model->weight);
    EXPECT_GT(copy.use_count(), 1U);
  }
  EXPECT_EQ(copy.use_count(), 1U);
}

}  // namespace
