// Which passes KFAC's factors are made of: those whose output gradients made up the weight gradient that
// the step sees. Against equations in float64.

#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "optim/factored_support.h"
#include "support/errors.h"
#include "support/libtorch.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::Kfac;

constexpr double kDamping = 0.1;

torch::Tensor rows(int64_t count, int64_t features) {
  return torch::randn({count, features}, torch::kFloat64);
}

/// Inputs and output gradients (of the mean loss) of the uses that a step is made of.
using Pairs = std::vector<std::pair<torch::Tensor, torch::Tensor>>;

/// θ − (P ⊗ A + δI)⁻¹ G of one step, with the batch size that all uses have together.
torch::Tensor step_of(const torch::Tensor& theta, const Pairs& pairs) {
  auto a = torch::zeros({}, torch::kFloat64);
  auto p = torch::zeros({}, torch::kFloat64);
  auto g = torch::zeros({}, torch::kFloat64);
  double batch = 0.0;
  for (const auto& [x, s] : pairs) {
    const auto inputs = with_ones(x.detach());
    a = a + inputs.t().matmul(inputs);
    p = p + s.t().matmul(s);
    g = g + s.t().matmul(inputs);
    batch += static_cast<double>(x.size(0));
  }
  return theta - kronecker_solve(p / batch * batch * batch, a / batch, kDamping, g);
}

class FactoredPasses : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(11);
    layer = double_linear(4, 3);
    optimizer = std::make_unique<Kfac>(*layer, plain_kfac().damping(kDamping));
    theta = linear_layer(layer);
  }

  /// One step must be the one that follows from these uses.
  void expect_step_of(const Pairs& pairs) {
    optimizer->step();
    EXPECT_TRUE(all_close(linear_layer(layer), step_of(theta, pairs), 1e-9));
  }

  torch::nn::Linear layer{nullptr};
  std::unique_ptr<Kfac> optimizer;
  torch::Tensor theta;
};

TEST_F(FactoredPasses, ASaliencyMapLeavesNoTrace) {
  const auto x = rows(6, 4).requires_grad_();
  const auto s = rows(6, 3);
  const auto z = layer->forward(x);
  torch::autograd::grad({(z * rows(6, 3)).sum()}, {x}, {}, /*retain_graph=*/true);
  (z * s).sum().backward();
  const auto other = layer->forward(x);  // and in a pass of its own
  torch::autograd::grad({(other * rows(6, 3)).sum()}, {x});
  expect_step_of({{x, s}});
}

TEST_F(FactoredPasses, ABackwardPassForOtherTensorsLeavesNoTrace) {
  const auto x = rows(6, 4).requires_grad_();
  const auto s = rows(6, 3);
  const auto z = layer->forward(x);
  (z * rows(6, 3)).sum().backward({}, /*retain_graph=*/true, false, std::vector<torch::Tensor>{x});
  (z * s).sum().backward({}, c10::nullopt, false,
                         std::vector<torch::Tensor>{layer->weight, layer->bias});
  expect_step_of({{x, s}});
}

TEST_F(FactoredPasses, ADiscardedBackwardPassLeavesNoTrace) {
  const std::vector<std::function<void()>> ways{[&] { optimizer->zero_grad(); },
                                                [&] {
                                                  for (auto& parameter : layer->parameters())
                                                    parameter.mutable_grad().zero_();
                                                },
                                                [&] {
                                                  for (auto& parameter : layer->parameters())
                                                    parameter.mutable_grad().reset();
                                                }};
  for (const auto& discard : ways) {
    SetUp();
    (layer->forward(rows(5, 4)) * rows(5, 3)).sum().backward();
    (layer->forward(rows(5, 4)) * NAN).sum().backward();  // why it is discarded
    discard();
    const auto x = rows(6, 4);
    const auto s = rows(6, 3);
    (layer->forward(x) * s).sum().backward();
    expect_step_of({{x, s}});
  }
}

TEST_F(FactoredPasses, ADiscardedBackwardPassWithoutAnotherLeavesTheFactorsAlone) {
  const WarningCapture warnings;
  (layer->forward(rows(5, 4)) * rows(5, 3)).sum().backward();
  optimizer->zero_grad();
  optimizer->step();
  EXPECT_FALSE(optimizer->coverage()[0].observed);
}

TEST_F(FactoredPasses, MicroBatchesCountTogetherWhateverIsDoneToTheGradientBetween) {
  const auto x = rows(6, 4);
  const auto s = rows(6, 3);
  for (int part = 0; part < 3; ++part) {
    (layer->forward(x.narrow(0, 2 * part, 2)) * s.narrow(0, 2 * part, 2)).sum().backward();
    for (const auto& parameter : layer->parameters()) parameter.grad().mul_(2.0).div_(2.0);
  }
  expect_step_of({{x, s}});
}

TEST_F(FactoredPasses, PassesThroughAKeptGraphAddUpToOne) {
  for (const bool keep_to_the_end : {false, true}) {
    SetUp();
    const auto x = rows(6, 4);
    const auto s1 = rows(6, 3);
    const auto s2 = rows(6, 3);
    const auto z = layer->forward(x);
    (z * s1).sum().backward({}, /*retain_graph=*/true);
    (z * s2).sum().backward({}, keep_to_the_end);
    expect_step_of({{x, s1 + s2}});
  }
}

TEST_F(FactoredPasses, GraphsThatWereKeptForAWhileCountLikeOthers) {
  Pairs pairs;
  for (int pass = 0; pass < 5; ++pass) {
    const auto x = rows(6, 4);
    const auto s = rows(6, 3);
    (layer->forward(x) * s).sum().backward({}, /*retain_graph=*/true);
    pairs.emplace_back(x, s);
  }
  expect_step_of(pairs);
}

TEST_F(FactoredPasses, AKeptGraphCountsAgainAfterItsGradientWasDiscarded) {
  const auto x = rows(6, 4);
  const auto s = rows(6, 3);
  const auto z = layer->forward(x);
  (z * rows(6, 3)).sum().backward({}, /*retain_graph=*/true);
  optimizer->zero_grad();
  (z * s).sum().backward();
  expect_step_of({{x, s}});
}

TEST_F(FactoredPasses, AForwardPassWithoutBackwardPassDoesNotCount) {
  layer->forward(rows(7, 4));
  const auto x = rows(6, 4);
  const auto s = rows(6, 3);
  (layer->forward(x) * s).sum().backward();
  expect_step_of({{x, s}});
}

TEST_F(FactoredPasses, AWeightUsedTwiceInAPassCountsBothAfterADiscardedPass) {
  (layer->forward(rows(5, 4)) * rows(5, 3)).sum().backward();
  optimizer->zero_grad();
  const auto x1 = rows(6, 4), x2 = rows(6, 4);
  const auto s1 = rows(6, 3), s2 = rows(6, 3);
  ((layer->forward(x1) * s1).sum() + (layer->forward(x2) * s2).sum()).backward();
  expect_step_of({{x1, s1}, {x2, s2}});
}

TEST_F(FactoredPasses, GradientsThatAreReturnedCountWhereTheUserSetsThem) {
  const auto x = rows(6, 4);
  const auto s = rows(6, 3);
  const auto gradients =
      torch::autograd::grad({(layer->forward(x) * s).sum()}, {layer->weight, layer->bias});
  layer->weight.mutable_grad() = gradients[0];
  layer->bias.mutable_grad() = gradients[1];
  expect_step_of({{x, s}});
}

TEST_F(FactoredPasses, GradientsThatAreReturnedDoNotCountBesideABackwardPass) {
  const auto x = rows(6, 4);
  const auto s = rows(6, 3);
  torch::autograd::grad({(layer->forward(x) * rows(6, 3)).sum()}, {layer->weight});
  const auto z = layer->forward(x);
  torch::autograd::grad({(z * rows(6, 3)).sum()}, {layer->weight}, {}, /*retain_graph=*/true);
  (z * s).sum().backward();
  expect_step_of({{x, s}});
}

TEST_F(FactoredPasses, ADetachedWeightDoesNotCount) {
  const auto x = rows(6, 4).requires_grad_();
  const auto s = rows(6, 3);
  const auto loss = (layer->forward(x) * s).sum() +
                    torch::linear(x, layer->weight.detach(), layer->bias.detach()).sum() +
                    torch::linear(rows(5, 4), layer->weight.detach()).sum();
  loss.backward();
  expect_step_of({{x, s}});
}

/// Runs a linear layer without recording it and again, recorded, in the backward pass.
struct RecomputedLinear : torch::autograd::Function<RecomputedLinear> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& w, const torch::Tensor& b) {
    context->save_for_backward({x, w, b});
    return torch::linear(x, w, b);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto x = saved[0].detach().requires_grad_();
    const torch::AutoGradMode recompute(true);
    const auto z = torch::linear(x, saved[1], saved[2]);
    return torch::autograd::grad({z}, {x, saved[1], saved[2]}, {gradients[0]});
  }
};

TEST_F(FactoredPasses, ACheckpointedUseCountsBesideAnother) {
  const auto x1 = rows(6, 4), x2 = rows(6, 4).requires_grad_();
  const auto s1 = rows(6, 3), s2 = rows(6, 3);
  const auto checkpointed = RecomputedLinear::apply(x2, layer->weight, layer->bias);
  ((layer->forward(x1) * s1).sum() + (checkpointed * s2).sum()).backward();
  expect_step_of({{x1, s1}, {x2, s2}});
}

TEST_F(FactoredPasses, ASaliencyMapThroughACheckpointLeavesNoTrace) {
  const auto x = rows(6, 4).requires_grad_();
  const auto s = rows(6, 3);
  const auto seen = RecomputedLinear::apply(x, layer->weight, layer->bias);
  torch::autograd::grad({(seen * rows(6, 3)).sum()}, {x});
  (layer->forward(x) * s).sum().backward();
  expect_step_of({{x, s}});
}

TEST_F(FactoredPasses, AGradientPenaltyCountsOutputGradientsOfItsOnePass) {
  const auto x = rows(6, 4).requires_grad_();
  const auto z = layer->forward(x);
  auto kept = z.detach().requires_grad_();
  const auto loss = [&](const torch::Tensor& output, const torch::Tensor& input) {
    const auto score = output.tanh().sum();
    const auto g = torch::autograd::grad({score}, {input}, {}, /*retain_graph=*/true,
                                         /*create_graph=*/true)[0];
    return score + g.square().sum();
  };
  loss(z, x).backward();
  // The gradient of the output, from a second graph that begins there: dx = dz · W.
  const auto score = kept.tanh().sum();
  const auto dz = torch::autograd::grad({score}, {kept}, {}, true, /*create_graph=*/true)[0];
  const auto penalty = dz.matmul(layer->weight.detach()).square().sum();
  const auto s = torch::autograd::grad({score + penalty}, {kept})[0];
  const auto gradient = linear_gradient(layer);
  optimizer->step();
  const auto inputs = with_ones(x.detach());
  const auto v =
      kronecker_solve(s.t().matmul(s) * 6.0, inputs.t().matmul(inputs) / 6.0, kDamping, gradient);
  EXPECT_TRUE(all_close(linear_layer(layer), theta - v, 1e-9));
}

}  // namespace
