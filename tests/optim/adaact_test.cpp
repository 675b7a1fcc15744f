#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/libtorch.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::AdaAct;
using adaact::AdaActOptions;
using adaact::NonFinitePolicy;
using adaact::UnobservedRule;

/// Algorithm 1 written out for one linear layer with bias, as the paper has it.
struct PaperLinear {
  torch::Tensor w, b, m_w, m_b, v;
  int t = 0;

  explicit PaperLinear(const torch::nn::Linear& layer)
      : w(layer->weight.detach().clone()),
        b(layer->bias.detach().clone()),
        m_w(torch::zeros_like(w)),
        m_b(torch::zeros_like(b)),
        v(torch::zeros({w.size(1) + 1}, w.options())) {}

  void step(const torch::Tensor& x, const torch::Tensor& g_w, const torch::Tensor& g_b,
            const AdaActOptions& o) {
    ++t;
    const auto [beta1, beta2] = o.betas();
    const auto a = torch::cat({x, torch::ones({x.size(0), 1}, x.options())}, 1);
    const auto second_moment =
        a.square().mean(0).clamp(std::get<0>(o.clip_range()), std::get<1>(o.clip_range()));
    v = beta2 * v + (1 - beta2) * second_moment;
    const auto scale = (v / (1 - std::pow(beta2, t))).pow(o.power()) + o.eps();
    m_w = beta1 * m_w + (1 - beta1) * g_w;
    m_b = beta1 * m_b + (1 - beta1) * g_b;
    const auto correction = 1 - std::pow(beta1, t);
    const auto n = w.size(1);
    w = w - o.lr() * (m_w / correction / scale.narrow(0, 0, n) + o.weight_decay() * w);
    b = b - o.lr() * (m_b / correction / scale[n] + o.weight_decay() * b);
  }
};

class AdaActEquations : public ::testing::TestWithParam<AdaActOptions> {};

TEST_P(AdaActEquations, LinearLayerFollowsThePaper) {
  torch::manual_seed(3);
  torch::nn::Linear model(5, 4);
  model->to(torch::kFloat64);
  PaperLinear paper(model);
  AdaAct optimizer(*model, GetParam());
  for (int t = 0; t < 12; ++t) {
    const auto x = 3 * torch::randn({7, 5}, torch::kFloat64);
    optimizer.zero_grad();
    model->forward(x).sin().sum().backward();
    paper.step(x, model->weight.grad(), model->bias.grad(), GetParam());
    optimizer.step();
    ASSERT_TRUE(all_close(model->weight.detach(), paper.w, 1e-13)) << "step " << t;
    ASSERT_TRUE(all_close(model->bias.detach(), paper.b, 1e-13)) << "step " << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Options, AdaActEquations,
                         ::testing::Values(AdaActOptions(0.1),
                                           AdaActOptions(0.05).betas({0.5, 0.9}).eps(1e-3),
                                           AdaActOptions(0.1).power(1.0).weight_decay(0.0),
                                           AdaActOptions(0.1).power(0.25),
                                           AdaActOptions(0.1).betas({0.0, 0.0}),
                                           AdaActOptions(0.1).clip_range({2.0, 8.0})));

TEST(AdaAct, GroupedConvolutionUsesEachGroupsOwnInput) {
  torch::nn::Conv2d model(torch::nn::Conv2dOptions(4, 6, 3).groups(2).bias(false));
  model->to(torch::kFloat64);
  const auto before = model->weight.detach().clone();
  AdaAct optimizer(*model, AdaActOptions(0.1).weight_decay(0.0));
  const auto x = torch::randn({3, 4, 6, 6}, torch::kFloat64);
  model->forward(x).sin().sum().backward();
  optimizer.step();
  // At the first step M̂ = G and V̂ = Ã.
  for (int64_t group = 0; group < 2; ++group) {
    const auto patches = torch::nn::functional::unfold(
        x.narrow(1, 2 * group, 2), torch::nn::functional::UnfoldFuncOptions({3, 3}));
    const auto second_moment = patches.square().mean(at::IntArrayRef{0, 2}).view({1, 2, 3, 3});
    const auto g = model->weight.grad().narrow(0, 3 * group, 3);
    const auto expected = before.narrow(0, 3 * group, 3) - 0.1 * g / (second_moment.sqrt() + 1e-8);
    EXPECT_TRUE(all_close(model->weight.detach().narrow(0, 3 * group, 3), expected, 1e-13));
  }
}

TEST(AdaAct, ManyStepsOfEveryRuleAgreeInChannelsLast) {
  torch::manual_seed(4);
  SmallNet plain;
  SmallNet strided;
  plain->to(torch::kFloat64);
  strided->to(torch::kFloat64);
  copy_values(plain, strided);
  for (auto& parameter : strided->parameters()) {
    if (parameter.dim() == 4) {
      parameter.set_data(parameter.detach().contiguous(torch::MemoryFormat::ChannelsLast));
    }
  }
  AdaAct plain_optimizer(*plain);
  AdaAct strided_optimizer(*strided);
  for (int t = 0; t < 5; ++t) {
    auto batch = image_batch(6);
    train_step(plain, plain_optimizer, batch);
    batch.x = batch.x.contiguous(torch::MemoryFormat::ChannelsLast);
    train_step(strided, strided_optimizer, batch);
  }
  EXPECT_FALSE(strided->conv->weight.is_contiguous());
  expect_close(snapshot(*strided), snapshot(*plain), 1e-11);
}

// Statistics belong to steps.

TEST(AdaAct, GradientAccumulationMatchesFullBatch) {
  torch::manual_seed(5);
  auto whole = make_mlp();
  auto parts = make_mlp();
  copy_values(whole, parts);
  AdaAct whole_optimizer(*whole);
  AdaAct parts_optimizer(*parts);
  for (int t = 0; t < 20; ++t) {
    const auto batch = row_batch(32);
    train_step(whole, whole_optimizer, batch);
    parts_optimizer.zero_grad();
    int64_t begin = 0;
    for (const int64_t size : {8, 4, 16, 4}) {  // uneven micro-batches
      const auto loss = cross_entropy(parts->forward(batch.x.narrow(0, begin, size)),
                                      batch.y.narrow(0, begin, size));
      (loss * (static_cast<double>(size) / 32.0)).backward();
      begin += size;
    }
    parts_optimizer.step();
  }
  expect_close(snapshot(*parts), snapshot(*whole), 1e-12);
}

TEST(AdaAct, ForwardThenZeroGradThenBackwardIsTheUsualStep) {
  torch::manual_seed(6);
  auto first = make_mlp();
  auto second = make_mlp();
  copy_values(first, second);
  AdaAct first_optimizer(*first);
  AdaAct second_optimizer(*second);
  const auto batch = row_batch(8);
  train_step(first, first_optimizer, batch);
  const auto loss = cross_entropy(second->forward(batch.x), batch.y);
  second_optimizer.zero_grad();
  loss.backward();
  second_optimizer.step();
  expect_bit_identical(snapshot(*second), snapshot(*first));
}

TEST(AdaAct, DiscardedPausedAndEvaluationForwardsLeaveNoTrace) {
  torch::manual_seed(7);
  auto first = make_mlp();
  auto second = make_mlp();
  copy_values(first, second);
  AdaAct first_optimizer(*first);
  AdaAct second_optimizer(*second);
  const auto batch = row_batch(8);
  const auto other = 10 * torch::randn({4, 6}, torch::kFloat64);
  train_step(first, first_optimizer, batch);

  second->forward(other);
  second_optimizer.discard_observations();
  {
    const auto pause = second_optimizer.pause_observation();
    second->forward(other);
  }
  second->eval();
  second->forward(other);
  second->train();
  train_step(second, second_optimizer, batch);
  expect_bit_identical(snapshot(*second), snapshot(*first));
}

TEST(AdaAct, ClosureIsEvaluatedWithGradients) {
  torch::manual_seed(8);
  auto first = make_mlp();
  auto second = make_mlp();
  copy_values(first, second);
  AdaAct first_optimizer(*first);
  AdaAct second_optimizer(*second);
  const auto batch = row_batch(8);
  const auto expected = train_step(first, first_optimizer, batch);
  const torch::NoGradGuard no_grad;  // as LibTorch's own optimizers allow
  const auto loss = second_optimizer.step([&] {
    second_optimizer.zero_grad();
    auto value = cross_entropy(second->forward(batch.x), batch.y);
    value.backward();
    return value;
  });
  EXPECT_EQ(loss.item<double>(), expected);
  expect_bit_identical(snapshot(*second), snapshot(*first));
}

TEST(AdaAct, LayerThatAppearsAtStep1000TakesTheSameFirstStep) {
  torch::manual_seed(9);
  struct TwoHeadsImpl : torch::nn::Module {
    TwoHeadsImpl() {
      always = register_module("always", torch::nn::Linear(4, 2));
      late = register_module("late", torch::nn::Linear(4, 2));
      to(torch::kFloat64);
    }
    torch::nn::Linear always{nullptr}, late{nullptr};
  };
  const auto x = torch::randn({5, 4}, torch::kFloat64);
  const auto run = [&](int64_t steps_before) {
    torch::manual_seed(10);
    auto model = std::make_shared<TwoHeadsImpl>();
    WarningCapture warnings;
    AdaAct optimizer(*model, AdaActOptions(0.1).weight_decay(0.0));
    for (int64_t t = 0; t < steps_before; ++t) {
      optimizer.zero_grad();
      model->always->forward(x).pow(2).sum().backward();
      optimizer.step();
    }
    optimizer.zero_grad();
    model->late->forward(x).pow(2).sum().backward();
    optimizer.step();
    return std::vector<torch::Tensor>{model->late->weight.detach(), model->late->bias.detach()};
  };
  expect_bit_identical(run(999), run(0));
}

TEST(AdaAct, LayerNotUsedInAStepKeepsItsMoments) {
  auto model = make_mlp();
  AdaAct optimizer(*model);
  train_step(model, optimizer, row_batch(8));
  const auto weight = model->parameters()[0];
  const auto before = optimizer.second_moment(weight).clone();
  optimizer.zero_grad();
  weight.mutable_grad() = torch::ones_like(weight);  // a gradient without an observation
  const auto value = weight.detach().clone();
  optimizer.step();
  EXPECT_TRUE(bit_identical(optimizer.second_moment(weight), before));
  EXPECT_FALSE(torch::equal(weight, value));
}

TEST(AdaAct, WeightUsedTwiceCountsBothUses) {
  torch::nn::Linear model(torch::nn::LinearOptions(3, 3).bias(false));
  model->to(torch::kFloat64);
  AdaAct optimizer(*model);
  const auto x = torch::randn({4, 3}, torch::kFloat64);
  const auto y = model->forward(x);
  model->forward(y).sum().backward();
  optimizer.step();
  const auto expected = torch::cat({x, y.detach()}).square().mean(0, /*keepdim=*/true);
  EXPECT_TRUE(all_close(optimizer.second_moment(model->weight), expected, 1e-14));
}

TEST(AdaAct, SumsMeasuredElsewhereAreAsGoodAsASeenInput) {
  torch::manual_seed(5);
  torch::nn::Linear seen(4, 3);
  torch::nn::Linear told(4, 3);
  copy_values(seen, told);
  AdaAct optimizer(*seen);
  AdaAct told_optimizer(*told);
  const auto x = torch::randn({6, 4});
  seen->forward(x).sin().sum().backward();
  {
    const auto pause = told_optimizer.pause_observation();
    told->forward(x).sin().sum().backward();
  }
  for (const auto& part : x.chunk(2)) {
    told_optimizer.add_observed(told->weight,
                                adaact::second_moment(part, adaact::Geometry::linear()));
  }
  optimizer.step();
  told_optimizer.step();
  EXPECT_TRUE(all_close(told->weight.detach(), seen->weight.detach(), 1e-6));
  EXPECT_TRUE(contains(error_of([&] {
                         told_optimizer.add_observed(told->weight, {torch::ones({1, 5}), 3});
                       }),
                       "5"));
  EXPECT_TRUE(contains(error_of([&] {
                         told_optimizer.add_observed(torch::ones({3, 4}), {torch::ones({1, 4}), 3});
                       }),
                       "none of its parameters"));
}

TEST(AdaAct, ExplicitObservationIsAsGoodAsASeenOne) {
  torch::manual_seed(11);
  torch::nn::Linear seen(4, 3);
  torch::nn::Linear told(4, 3);
  seen->to(torch::kFloat64);
  told->to(torch::kFloat64);
  copy_values(seen, told);
  AdaAct seen_optimizer(*seen);
  AdaAct told_optimizer(*told);
  const auto x = torch::randn({5, 4}, torch::kFloat64);
  for (int t = 0; t < 3; ++t) {
    seen_optimizer.zero_grad();
    seen->forward(x).sin().sum().backward();
    seen_optimizer.step();
    told_optimizer.zero_grad();
    told_optimizer.observe(told->weight, x);
    // einsum multiplies in a way that no layer does.
    (torch::einsum("ni,oi->no", {x, told->weight * 1.0}) + told->bias).sin().sum().backward();
    told_optimizer.step();
  }
  expect_close(snapshot(*told), snapshot(*seen), 1e-13);
}

}  // namespace
