#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <torch/script.h>
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

TEST_P(AdaActEquations, LinearLayer_FollowsThePaper) {
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

TEST(AdaAct, GroupedConvolution_UsesEachGroupsOwnInput) {
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

TEST(AdaAct, ManyStepsOfEveryRule_AgreeInChannelsLast) {
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

TEST(AdaAct, GradientAccumulation_MatchesFullBatch) {
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

TEST(AdaAct, ForwardThenZeroGradThenBackward_IsTheUsualStep) {
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

TEST(AdaAct, DiscardedPausedAndEvaluationForwards_LeaveNoTrace) {
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

TEST(AdaAct, Closure_IsEvaluatedWithGradients) {
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

TEST(AdaAct, LayerThatAppearsAtStep1000_TakesTheSameFirstStep) {
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

TEST(AdaAct, LayerNotUsedInAStep_KeepsItsMoments) {
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

TEST(AdaAct, WeightUsedTwice_CountsBothUses) {
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

TEST(AdaAct, ExplicitObservation_IsAsGoodAsASeenOne) {
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

// What cannot be observed.

TEST(AdaAct, UnobservedParameters_FollowTheChosenRule) {
  for (const auto rule : {UnobservedRule::PlainGradient, UnobservedRule::Momentum}) {
    const auto theta = torch::randn({3}, torch::kFloat64).requires_grad_();
    AdaAct optimizer(adaact::NamedTensors{{"theta", theta}},
                     AdaActOptions(0.1).weight_decay(0.01).unobserved_rule(rule));
    auto expected = theta.detach().clone();
    auto m = torch::zeros_like(expected);
    for (int t = 1; t <= 5; ++t) {
      optimizer.zero_grad();
      theta.sin().sum().backward();
      const auto g = theta.grad().clone();
      optimizer.step();
      m = 0.9 * m + 0.1 * g;
      const auto g_hat =
          rule == UnobservedRule::Momentum ? m / (1 - std::pow(0.9, t)) / (1 + 1e-8) : g;
      expected = expected - 0.1 * (g_hat + 0.01 * expected);
      ASSERT_TRUE(all_close(theta.detach(), expected, 1e-14));
    }
  }
}

struct OneOfEverythingImpl : torch::nn::Module {
  OneOfEverythingImpl() {
    linear = register_module("linear", torch::nn::Linear(4, 4));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({4})));
    transposed = register_module("transposed", torch::nn::ConvTranspose1d(4, 4, 1));
    cell = register_module("cell", torch::nn::GRUCell(4, 4));
    embedding = register_module("embedding", torch::nn::Embedding(3, 4));
    frozen = register_module("frozen", torch::nn::Linear(4, 4));
    frozen->weight.requires_grad_(false);
    unused = register_module("unused", torch::nn::Linear(4, 4));
    gain = register_parameter("gain", torch::ones({4, 4}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    auto y = norm->forward(linear->forward(x) +
                           embedding->forward(torch::zeros({x.size(0)}, torch::kLong)));
    y = transposed->forward(y.unsqueeze(2)).squeeze(2);
    return cell->forward(frozen->forward(y)).matmul(gain);
  }
  torch::nn::Linear linear{nullptr}, frozen{nullptr}, unused{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::ConvTranspose1d transposed{nullptr};
  torch::nn::GRUCell cell{nullptr};
  torch::nn::Embedding embedding{nullptr};
  torch::Tensor gain;
};
TORCH_MODULE(OneOfEverything);

TEST(AdaAct, Coverage_SaysForEveryParameterWhetherAndWhy) {
  OneOfEverything model;
  WarningCapture warnings;
  AdaAct optimizer(*model);
  for (int t = 0; t < 2; ++t) {
    optimizer.zero_grad();
    model->forward(torch::randn({2, 4})).sum().backward();
    optimizer.step();
  }
  std::map<std::string, adaact::ParameterCoverage> coverage;
  for (const auto& parameter : optimizer.coverage()) coverage[parameter.name] = parameter;
  EXPECT_EQ(coverage.size(), model->parameters().size());
  const auto expect = [&](const std::string& name, bool observed, const std::string& reason) {
    EXPECT_EQ(coverage.at(name).observed, observed) << name;
    EXPECT_TRUE(contains(coverage.at(name).reason, reason)) << name;
  };
  expect("linear.weight", true, "weight");
  expect("linear.bias", true, "bias");
  expect("norm.weight", false, "normalisation");
  expect("transposed.weight", false, "transposed convolution");
  expect("cell.weight_ih", false, "recurrent");
  expect("embedding.weight", false, "embedding");
  expect("frozen.weight", false, "frozen");
  expect("frozen.bias", true, "bias");
  expect("unused.weight", false, "not been used");
  expect("unused.bias", false, "not been used");
  expect("gain", false, "not seen");

  ASSERT_EQ(warnings.messages.size(), 1U) << "one line, at the first step only";
  EXPECT_TRUE(contains(warnings.messages[0], "unused.weight"));
  EXPECT_FALSE(contains(warnings.messages[0], "linear.weight"));
}

TEST(AdaAct, CompletelyUsedModel_LogsNothing) {
  SmallNet model;
  WarningCapture warnings;
  AdaAct optimizer(*model);
  train_step(model, optimizer, image_batch(4, torch::kFloat32));
  EXPECT_TRUE(warnings.messages.empty());
}

TEST(AdaAct, FrozenWeightWithTrainedBias_StaysWhileTheBiasMoves) {
  torch::nn::Linear model(4, 3);
  model->weight.requires_grad_(false);
  AdaAct optimizer(*model, AdaActOptions(0.1).weight_decay(0.0));
  const auto weight = model->weight.clone();
  const auto bias = model->bias.detach().clone();
  model->forward(torch::randn({5, 4})).sum().backward();
  optimizer.step();
  EXPECT_TRUE(bit_identical(model->weight, weight));
  EXPECT_TRUE(all_close(model->bias.detach(), bias - 0.1 * 5.0 / (1 + 1e-8), 1e-6));
}

TEST(AdaAct, SparseGradient_IsAnErrorThatNamesTheParameterAndChangesNothing) {
  torch::nn::ModuleDict model(torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>>{
      {"table", torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 3).sparse(true)).ptr()},
      {"fc", torch::nn::Linear(3, 2).ptr()}});
  AdaAct optimizer(*model);
  const auto rows = model["table"]->as<torch::nn::Embedding>()->forward(torch::tensor({1, 2}));
  model["fc"]->as<torch::nn::Linear>()->forward(rows).sum().backward();
  const auto before = snapshot(*model);
  EXPECT_TRUE(contains(error_of([&] { optimizer.step(); }), "'table.weight'"));
  expect_bit_identical(snapshot(*model), before);
}

TEST(AdaAct, CrossAttention_ScalesEachSliceByItsOwnInput) {
  torch::manual_seed(12);
  torch::nn::MultiheadAttention model(torch::nn::MultiheadAttentionOptions(4, 2).bias(false));
  model->to(torch::kFloat64);
  AdaAct optimizer(*model, AdaActOptions(0.1).weight_decay(0.0));
  const auto before = model->in_proj_weight.detach().clone();
  const auto query = torch::randn({3, 2, 4}, torch::kFloat64);
  const auto memory = 4 * torch::randn({5, 2, 4}, torch::kFloat64);
  std::get<0>(model->forward(query, memory, memory)).sum().backward();
  optimizer.step();
  const auto scale = [](const torch::Tensor& x) {
    return x.reshape({-1, 4}).square().mean(0).sqrt() + 1e-8;
  };
  const auto g = model->in_proj_weight.grad();
  const auto expected = before - 0.1 * torch::cat({g.narrow(0, 0, 4) / scale(query),
                                                   g.narrow(0, 4, 8) / scale(memory)});
  EXPECT_TRUE(all_close(model->in_proj_weight.detach(), expected, 1e-13));

  // Self-attention afterwards: one input for all rows, each slice with its own history.
  optimizer.zero_grad();
  std::get<0>(model->forward(query, query, query)).sum().backward();
  optimizer.step();
  const auto v_hat = optimizer.second_moment(model->in_proj_weight);
  ASSERT_EQ(v_hat.size(0), 2);
  const auto moment = [](const torch::Tensor& x) { return x.reshape({-1, 4}).square().mean(0); };
  const auto average = [&](const torch::Tensor& first, const torch::Tensor& second) {
    return (0.999 * 0.001 * first + 0.001 * second) / (1 - 0.999 * 0.999);
  };
  EXPECT_TRUE(all_close(v_hat[0], moment(query), 1e-12));
  EXPECT_TRUE(all_close(v_hat[1], average(moment(memory), moment(query)), 1e-12));
}

TEST(AdaAct, RowsThatWereNeverUsed_FollowTheRuleForUnobserved) {
  for (const auto rule : {UnobservedRule::PlainGradient, UnobservedRule::Momentum}) {
    const auto w = torch::randn({6, 4}, torch::kFloat64).requires_grad_();
    const auto before = w.detach().clone();
    AdaAct optimizer(adaact::NamedTensors{{"w", w}},
                     AdaActOptions(0.1).weight_decay(0.0).unobserved_rule(rule));
    const auto x = 3 * torch::randn({5, 4}, torch::kFloat64);
    (torch::linear(x, w.slice(0, 2, 4)).sum() + w.sum()).backward();
    optimizer.step();
    const auto scale = x.square().mean(0).sqrt() + 1e-8;
    auto expected = before - 0.1 * w.grad();
    expected.slice(0, 2, 4) = before.slice(0, 2, 4) - 0.1 * w.grad().slice(0, 2, 4) / scale;
    EXPECT_TRUE(all_close(w.detach(), expected, 1e-7));
  }
}

// Groups and options.

TEST(AdaAct, ParameterGroups_HaveTheirOwnOptions) {
  torch::nn::Linear model(4, 3);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<torch::Tensor>{model->weight},
                      std::make_unique<AdaActOptions>(AdaActOptions(0.5).weight_decay(0.0)));
  groups.emplace_back(std::vector<torch::Tensor>{model->bias});
  AdaAct optimizer(*model, groups, AdaActOptions(0.0));
  const auto bias = model->bias.detach().clone();
  const auto weight = model->weight.detach().clone();
  model->forward(torch::randn({5, 4})).sum().backward();
  optimizer.step();
  EXPECT_TRUE(bit_identical(model->bias.detach(), bias));
  EXPECT_FALSE(torch::equal(model->weight, weight));
  EXPECT_EQ(optimizer.param_groups()[1].options().get_lr(), 0.0);
}

TEST(AdaAct, NoDecayGroups_ExemptBiasesNormalisationAndTokens) {
  SmallNet model;
  model->register_parameter("cls_token", torch::zeros({1, 1, 4}));
  model->register_parameter("pos_embed", torch::zeros({1, 9, 4}));
  const AdaActOptions options(0.1);
  AdaAct optimizer(*model, adaact::no_decay_groups(*model, options), options);
  ASSERT_EQ(optimizer.param_groups().size(), 2U);
  EXPECT_EQ(optimizer.param_groups()[0].params().size(), 3U);  // conv, grouped, fc weights
  EXPECT_EQ(optimizer.param_groups()[1].params().size(), 6U);
  const auto& exempt = static_cast<const AdaActOptions&>(optimizer.param_groups()[1].options());
  EXPECT_EQ(exempt.weight_decay(), 0.0);
}

TEST(AdaAct, GroupAddedLater_IsUpdatedAndCheckedLikeTheFirst) {
  torch::nn::Linear model(4, 3);
  std::vector<torch::optim::OptimizerParamGroup> first;
  first.emplace_back(std::vector<torch::Tensor>{model->weight});
  AdaAct optimizer(*model, first);
  const auto bias = model->bias.detach().clone();
  static_cast<torch::optim::Optimizer&>(optimizer).add_param_group(
      torch::optim::OptimizerParamGroup({model->bias}));  // past our own check
  model->forward(torch::randn({5, 4})).sum().backward();
  optimizer.step();
  EXPECT_FALSE(torch::equal(model->bias, bias));
  EXPECT_TRUE(optimizer.coverage()[1].observed);
  EXPECT_TRUE(contains(error_of([&] {
                         optimizer.add_param_group(
                             torch::optim::OptimizerParamGroup({torch::ones({2})}));
                       }),
                       "is no parameter of the model"));
}

TEST(AdaAct, LibTorchsScheduler_ChangesTheRate) {
  torch::nn::Linear model(4, 3);
  AdaAct optimizer(*model, AdaActOptions(0.1));
  torch::optim::StepLR scheduler(optimizer, /*step_size=*/1, /*gamma=*/0.5);
  scheduler.step();  // counts the first epoch and leaves the rate
  scheduler.step();
  EXPECT_DOUBLE_EQ(optimizer.param_groups()[0].options().get_lr(), 0.05);
}

TEST(AdaActOptions, BadValues_AreNamedWithWhatWasExpected) {
  torch::nn::Linear model(2, 2);
  const auto error = [&](const AdaActOptions& options) {
    return error_of([&] { AdaAct optimizer(*model, options); });
  };
  EXPECT_TRUE(contains(error(AdaActOptions(-1.0)), "lr is -1"));
  EXPECT_TRUE(contains(error(AdaActOptions(std::nan(""))), "lr is nan"));
  EXPECT_TRUE(contains(error(AdaActOptions().betas({1.0, 0.9})), "betas[0] is 1"));
  EXPECT_TRUE(contains(error(AdaActOptions().betas({0.9, -0.1})), "betas[1] is -0.1"));
  EXPECT_TRUE(contains(error(AdaActOptions().eps(0.0)), "eps is 0"));
  EXPECT_TRUE(contains(error(AdaActOptions().weight_decay(-1e-3)), "weight_decay is -0.001"));
  EXPECT_TRUE(contains(error(AdaActOptions().power(-0.5)), "power is -0.5"));
  EXPECT_TRUE(contains(error(AdaActOptions().clip_range({2.0, 1.0})), "clip_range is [2, 1]"));
  EXPECT_TRUE(contains(error(AdaActOptions().damping(-1.0)), "damping is -1"));
  EXPECT_TRUE(contains(error(AdaActOptions().refresh_period(0)), "refresh_period is 0"));
  EXPECT_TRUE(
      contains(error(AdaActOptions().clip_range({0.1, 1.0}).covariance(adaact::Covariance::Full)),
               "cannot be clipped"));
}

TEST(AdaActOptions, Json_SurvivesARoundTripAndRejectsUnknownKeys) {
  const auto options = AdaActOptions(0.3)
                           .betas({0.8, 0.95})
                           .eps(1e-5)
                           .weight_decay(0.07)
                           .power(0.7)
                           .clip_range({0.1, 3.0})
                           .damping(0.2)
                           .refresh_period(7)
                           .unobserved_rule(UnobservedRule::Momentum)
                           .non_finite_policy(NonFinitePolicy::Skip);
  EXPECT_TRUE(AdaActOptions::from_json(options.to_json()) == options);
  EXPECT_TRUE(AdaActOptions::from_json("{}") == AdaActOptions());
  EXPECT_FALSE(AdaActOptions(0.2) == AdaActOptions(0.3));
  const auto unknown = error_of([] { AdaActOptions::from_json(R"({"learning_rate": 1})"); });
  EXPECT_TRUE(contains(unknown, "'learning_rate'"));
  EXPECT_TRUE(contains(unknown, "weight_decay"));
  EXPECT_TRUE(contains(error_of([] { AdaActOptions::from_json(R"({"covariance": "half"})"); }),
                       "diagonal, full"));
}

TEST(AdaAct, ModelWithoutParameters_IsRefused) {
  torch::nn::ReLU model;
  EXPECT_TRUE(contains(error_of([&] { AdaAct optimizer(*model); }), "no parameters"));
}

// Values that are not finite.

TEST(AdaAct, NonFiniteGradientOrInput_RejectsTheStepAndNamesThePlace) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    torch::manual_seed(13);
    auto model = make_mlp();
    auto reference = make_mlp();
    copy_values(model, reference);
    AdaAct optimizer(*model);
    AdaAct reference_optimizer(*reference);
    const auto good = row_batch(8);
    train_step(model, optimizer, good);
    train_step(reference, reference_optimizer, good);

    auto poisoned = row_batch(8);
    poisoned.x[3][2] = bad;
    try {
      train_step(model, optimizer, poisoned);
      FAIL() << "nothing was thrown";
    } catch (const adaact::NonFiniteError& error) {
      EXPECT_TRUE(contains(error.what(), "0.weight"));
    }
    optimizer.zero_grad();
    cross_entropy(model->forward(good.x), good.y).backward();
    model->parameters()[3].mutable_grad()[1] = bad;
    EXPECT_TRUE(contains(error_of([&] { optimizer.step(); }), "gradient of '2.bias'"));

    // As if neither had happened.
    train_step(model, optimizer, good);
    train_step(reference, reference_optimizer, good);
    expect_bit_identical(snapshot(*model), snapshot(*reference));
  }
}

TEST(AdaAct, SkipPolicy_SkipsAndCounts) {
  auto model = make_mlp();
  AdaAct optimizer(*model, AdaActOptions().non_finite_policy(NonFinitePolicy::Skip));
  const auto before = snapshot(*model);
  auto batch = row_batch(8);
  batch.x[0][0] = std::nan("");
  train_step(model, optimizer, batch);
  EXPECT_EQ(optimizer.skipped_steps(), 1);
  expect_bit_identical(snapshot(*model), before);
  train_step(model, optimizer, row_batch(8));
  EXPECT_EQ(optimizer.skipped_steps(), 1);
}

TEST(AdaAct, NonFiniteHalfPrecisionGradient_IsFound) {
  auto model = make_mlp(torch::kBFloat16);
  AdaAct optimizer(*model);
  cross_entropy(model->forward(torch::randn({4, 6}).to(torch::kBFloat16)).to(torch::kFloat32),
                torch::zeros({4}, torch::kLong))
      .backward();
  model->parameters()[0].mutable_grad()[0][0] = std::numeric_limits<float>::infinity();
  EXPECT_THROW(optimizer.step(), adaact::NonFiniteError);
}

// Precision, moves, TorchScript.

TEST(AdaAct, BFloat16Model_KeepsFloat32StateAndTracksFloat32) {
  torch::manual_seed(14);
  auto wide = make_mlp(torch::kFloat32);
  auto narrow = make_mlp(torch::kFloat32);
  copy_values(wide, narrow);
  narrow->to(torch::kBFloat16);
  AdaAct wide_optimizer(*wide);
  AdaAct narrow_optimizer(*narrow);
  for (int t = 0; t < 5; ++t) {
    const auto batch = row_batch(16, torch::kFloat32);
    train_step(wide, wide_optimizer, batch);
    narrow_optimizer.zero_grad();
    cross_entropy(narrow->forward(batch.x.to(torch::kBFloat16)).to(torch::kFloat32), batch.y)
        .backward();
    narrow_optimizer.step();
  }
  EXPECT_EQ(narrow_optimizer.second_moment(narrow->parameters()[0]).scalar_type(), torch::kFloat32);
  expect_close(snapshot(*narrow), snapshot(*wide), 0.03);  // bfloat16 has 8 bits
}

TEST(AdaAct, CpuAutocast_GivesTheStatisticsOfTheFloat32Inputs) {
  torch::nn::Linear model(4, 3);
  AdaAct optimizer(*model);
  const auto x = torch::randn({16, 4});
  {
    const CpuAutocast autocast;
    model->forward(x).to(torch::kFloat32).sum().backward();
  }
  optimizer.step();
  EXPECT_TRUE(all_close(optimizer.second_moment(model->weight), x.square().mean(0, true), 1e-6));
}

TEST(AdaAct, ModelMovedToFloat64_GoesOn) {
  auto model = make_mlp(torch::kFloat32);
  AdaAct optimizer(*model);
  train_step(model, optimizer, row_batch(8, torch::kFloat32));
  model->to(torch::kFloat64);
  const auto before = snapshot(*model);
  train_step(model, optimizer, row_batch(8));
  EXPECT_EQ(optimizer.second_moment(model->parameters()[0]).scalar_type(), torch::kFloat64);
  EXPECT_FALSE(torch::equal(snapshot(*model)[0], before[0]));
}

TEST(AdaAct, MovedOptimizer_GoesOn) {
  torch::manual_seed(15);
  auto first = make_mlp();
  auto second = make_mlp();
  copy_values(first, second);
  AdaAct first_optimizer(*first);
  auto before_move = std::make_unique<AdaAct>(*second);
  for (int t = 0; t < 3; ++t) {
    const auto batch = row_batch(8);
    train_step(first, first_optimizer, batch);
    if (t == 0) {
      train_step(second, *before_move, batch);
      continue;
    }
    auto moved = std::make_unique<AdaAct>(std::move(*before_move));
    before_move = std::move(moved);
    train_step(second, *before_move, batch);
  }
  expect_bit_identical(snapshot(*second), snapshot(*first));
}

TEST(AdaAct, OptimizerOutlivingTheModel_IsSafe) {
  auto model = make_mlp();
  AdaAct optimizer(*model);
  train_step(model, optimizer, row_batch(8));
  const auto weight = model->parameters()[0];
  model = nullptr;
  torch::linear(torch::randn({2, 6}, torch::kFloat64), weight).sum().backward();
  optimizer.step();
  EXPECT_EQ(optimizer.coverage().size(), 4U);
}

TEST(AdaAct, TorchScriptModule_TrainsLikeTheSameModelInCpp) {
  torch::manual_seed(16);
  torch::nn::Linear cpp(4, 3);
  cpp->to(torch::kFloat64);
  torch::jit::Module script("script");
  script.register_parameter("weight", cpp->weight.detach().clone().requires_grad_(), false);
  script.register_parameter("bias", cpp->bias.detach().clone().requires_grad_(), false);
  script.define(R"(
def forward(self, x):
  return torch.linear(x, self.weight, self.bias)
)");
  AdaAct cpp_optimizer(*cpp);
  AdaAct script_optimizer(adaact::script_parameters(script));
  for (int t = 0; t < 6; ++t) {
    const auto x = torch::randn({5, 4}, torch::kFloat64);
    cpp_optimizer.zero_grad();
    cpp->forward(x).sin().sum().backward();
    cpp_optimizer.step();
    script_optimizer.zero_grad();
    script.forward({x}).toTensor().sin().sum().backward();
    script_optimizer.step();
  }
  for (const auto& parameter : script_optimizer.coverage()) EXPECT_TRUE(parameter.observed);
  EXPECT_TRUE(all_close(script.attr("weight").toTensor().detach(), cpp->weight.detach(), 1e-12));
  EXPECT_TRUE(all_close(script.attr("bias").toTensor().detach(), cpp->bias.detach(), 1e-12));
}

TEST(AdaAct, FailureInAnObservation_SurfacesFromStepUnlessDiscarded) {
  torch::nn::Linear model(torch::nn::LinearOptions(4, 3).bias(false));
  AdaAct optimizer(*model);
  const auto sparse =
      torch::eye(4).to_sparse();  // LibTorch multiplies it, nothing here measures it
  torch::mm(sparse, model->weight.t());
  EXPECT_TRUE(contains(error_of([&] { optimizer.step(); }), "dense floating point"));
  optimizer.step();  // reported once
  torch::mm(sparse, model->weight.t());
  optimizer.discard_observations();
  optimizer.step();
}

TEST(AdaAct, ComplexLayer_FollowsTheRuleForUnobserved) {
  const auto w = torch::randn({3, 4}, torch::kComplexFloat).requires_grad_();
  AdaAct optimizer(adaact::NamedTensors{{"w", w}}, AdaActOptions(0.1).weight_decay(0.0));
  const auto before = w.detach().clone();
  torch::real(torch::linear(torch::randn({2, 4}, torch::kComplexFloat), w)).sum().backward();
  optimizer.step();
  EXPECT_TRUE(torch::allclose(w.detach(), before - 0.1 * w.grad()));
}

// Found in review.

TEST(AdaAct, EmptyBatch_LeavesTheMomentsAlone) {
  auto model = make_mlp();
  AdaAct optimizer(*model, AdaActOptions(0.1).weight_decay(0.0));
  train_step(model, optimizer, row_batch(8));
  const auto before = optimizer.second_moment(model->parameters()[0]).clone();
  optimizer.zero_grad();
  model->forward(torch::zeros({0, 6}, torch::kFloat64)).sum().backward();
  optimizer.step();
  EXPECT_TRUE(bit_identical(optimizer.second_moment(model->parameters()[0]), before));
  for (const auto& parameter : snapshot(*model))
    EXPECT_TRUE(parameter.isfinite().all().item<bool>());
}

TEST(AdaAct, ExplicitConvolution_NeedsItsGeometry) {
  torch::nn::Conv2d model(torch::nn::Conv2dOptions(2, 3, 3).bias(false));
  model->to(torch::kFloat64);
  AdaAct optimizer(*model);
  const auto x = torch::randn({2, 2, 6, 6}, torch::kFloat64);
  EXPECT_TRUE(contains(error_of([&] { optimizer.observe(model->weight, x); }),
                       "a convolution needs its geometry"));
  const auto geometry = adaact::Geometry::convolution({3, 3}, {1}, {0}, {1}, 1);
  optimizer.observe(model->weight, x, geometry);
  model->weight.mutable_grad() = torch::zeros_like(model->weight);
  optimizer.step();
  EXPECT_TRUE(all_close(optimizer.second_moment(model->weight),
                        adaact::second_moment_reference(x, geometry).mean(), 1e-13));
}

TEST(AdaAct, ModelMovedBeforeAStepWithoutObservation_TakesItsMomentsAlong) {
  auto model = make_mlp(torch::kFloat32);
  AdaAct optimizer(*model);
  train_step(model, optimizer, row_batch(8, torch::kFloat32));
  model->to(torch::kFloat64);
  for (auto& parameter : model->parameters()) {
    parameter.mutable_grad() = torch::ones_like(parameter);
  }
  optimizer.step();
  EXPECT_EQ(optimizer.second_moment(model->parameters()[0]).scalar_type(), torch::kFloat64);
}

TEST(AdaAct, PolicyThatDiffersBetweenGroups_IsRefusedAndThatOfTheGroupsCounts) {
  auto model = make_mlp();
  const auto skip = AdaActOptions().non_finite_policy(NonFinitePolicy::Skip);
  AdaAct optimizer(*model, adaact::no_decay_groups(*model, skip));  // defaults say throw
  auto batch = row_batch(8);
  batch.x[0][0] = std::nan("");
  train_step(model, optimizer, batch);
  EXPECT_EQ(optimizer.skipped_steps(), 1);
  auto groups = adaact::no_decay_groups(*model, skip);
  groups[1].set_options(std::make_unique<AdaActOptions>());
  EXPECT_TRUE(
      contains(error_of([&] { AdaAct other(*model, groups); }), "non_finite_policy differs"));
}

TEST(AdaAct, GraphHeldOverAStep_IsKnownToBeStale) {
  auto model = make_mlp();
  AdaAct optimizer(*model);
  const auto batch = row_batch(8);
  const auto loss = cross_entropy(model->forward(batch.x), batch.y);
  loss.backward({}, /*retain_graph=*/true);
  optimizer.step();
  EXPECT_TRUE(contains(error_of([&] { loss.backward(); }), "modified by an inplace operation"));
}

TEST(AdaAct, ParameterFrozenMidway_StaysWhereItIs) {
  auto model = make_mlp();
  AdaAct optimizer(*model);
  train_step(model, optimizer, row_batch(8));
  model->parameters()[0].requires_grad_(false);
  const auto before = snapshot(*model);
  train_step(model, optimizer, row_batch(8));
  EXPECT_TRUE(bit_identical(snapshot(*model)[0], before[0]));
  EXPECT_FALSE(torch::equal(snapshot(*model)[2], before[2]));
}

TEST(AdaAct, ParameterListedTwice_IsUpdatedOnce) {
  torch::manual_seed(17);
  auto once = make_mlp();
  auto twice = make_mlp();
  copy_values(once, twice);
  auto parameters = twice->parameters();
  parameters.push_back(parameters[0]);
  AdaAct once_optimizer(*once);
  AdaAct twice_optimizer(*twice, {torch::optim::OptimizerParamGroup(parameters)});
  const auto batch = row_batch(8);
  train_step(once, once_optimizer, batch);
  train_step(twice, twice_optimizer, batch);
  expect_bit_identical(snapshot(*twice), snapshot(*once));
}

TEST(AdaAct, OptionsOfAnotherOptimizer_AreRefused) {
  torch::nn::Linear model(3, 2);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(model->parameters(), std::make_unique<torch::optim::AdamOptions>(0.1));
  EXPECT_TRUE(contains(error_of([&] { AdaAct optimizer(*model, groups); }), "not AdaActOptions"));
}

}  // namespace
