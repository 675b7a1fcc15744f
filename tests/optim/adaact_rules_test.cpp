// What follows which rule: parameters without an input, frozen ones, groups, options.

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

// What cannot be observed.

TEST(AdaAct, UnobservedParametersFollowTheChosenRule) {
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

TEST(AdaAct, CoverageSaysForEveryParameterWhetherAndWhy) {
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
  expect("gain", false, "its rows meet the inputs");

  ASSERT_EQ(warnings.messages.size(), 1U) << "one line, at the first step only";
  EXPECT_TRUE(contains(warnings.messages[0], "unused.weight"));
  EXPECT_TRUE(contains(warnings.messages[0], "gain"));
  EXPECT_FALSE(contains(warnings.messages[0], "linear.weight"));
}

TEST(AdaAct, CompletelyUsedModelLogsNothing) {
  SmallNet model;
  WarningCapture warnings;
  AdaAct optimizer(*model);
  train_step(model, optimizer, image_batch(4, torch::kFloat32));
  EXPECT_TRUE(warnings.messages.empty());
}

TEST(AdaAct, FrozenWeightWithTrainedBiasStaysWhileTheBiasMoves) {
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

TEST(AdaAct, SparseGradientIsAnErrorThatNamesTheParameterAndChangesNothing) {
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

TEST(AdaAct, CrossAttentionScalesEachSliceByItsOwnInput) {
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

TEST(AdaAct, RowsThatWereNeverUsedFollowTheRuleForUnobserved) {
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

TEST(AdaAct, ParameterGroupsHaveTheirOwnOptions) {
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

TEST(AdaAct, NoDecayGroupsExemptBiasesNormalisationAndTokens) {
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

TEST(AdaAct, GroupAddedLaterIsUpdatedAndCheckedLikeTheFirst) {
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

TEST(AdaAct, LibTorchsSchedulerChangesTheRate) {
  torch::nn::Linear model(4, 3);
  AdaAct optimizer(*model, AdaActOptions(0.1));
  torch::optim::StepLR scheduler(optimizer, /*step_size=*/1, /*gamma=*/0.5);
  scheduler.step();  // counts the first epoch and leaves the rate
  scheduler.step();
  EXPECT_DOUBLE_EQ(optimizer.param_groups()[0].options().get_lr(), 0.05);
}

TEST(AdaActOptions, BadValuesAreNamedWithWhatWasExpected) {
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

TEST(AdaActOptions, JsonSurvivesARoundTripAndRejectsUnknownKeys) {
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

TEST(AdaAct, ModelWithoutParametersIsRefused) {
  torch::nn::ReLU model;
  EXPECT_TRUE(contains(error_of([&] { AdaAct optimizer(*model); }), "no parameters"));
}

}  // namespace
