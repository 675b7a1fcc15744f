// AdaAct where things go wrong or move: values, dtypes, TorchScript, lifetimes, observations.

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

// Values that are not finite.

TEST(AdaAct, NonFiniteGradientOrInputRejectsTheStepAndNamesThePlace) {
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

TEST(AdaAct, SkipPolicySkipsAndCounts) {
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

TEST(AdaAct, NonFiniteHalfPrecisionGradientIsFound) {
  auto model = make_mlp(torch::kBFloat16);
  AdaAct optimizer(*model);
  cross_entropy(model->forward(torch::randn({4, 6}).to(torch::kBFloat16)).to(torch::kFloat32),
                torch::zeros({4}, torch::kLong))
      .backward();
  model->parameters()[0].mutable_grad()[0][0] = std::numeric_limits<float>::infinity();
  EXPECT_THROW(optimizer.step(), adaact::NonFiniteError);
}

// Precision, moves, TorchScript.

TEST(AdaAct, BFloat16ModelKeepsFloat32StateAndTracksFloat32) {
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

TEST(AdaAct, CpuAutocastGivesTheStatisticsOfTheFloat32Inputs) {
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

TEST(AdaAct, ModelMovedToFloat64GoesOn) {
  auto model = make_mlp(torch::kFloat32);
  AdaAct optimizer(*model);
  train_step(model, optimizer, row_batch(8, torch::kFloat32));
  model->to(torch::kFloat64);
  const auto before = snapshot(*model);
  train_step(model, optimizer, row_batch(8));
  EXPECT_EQ(optimizer.second_moment(model->parameters()[0]).scalar_type(), torch::kFloat64);
  EXPECT_FALSE(torch::equal(snapshot(*model)[0], before[0]));
}

TEST(AdaAct, MovedOptimizerGoesOn) {
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

TEST(AdaAct, OptimizerOutlivingTheModelIsSafe) {
  auto model = make_mlp();
  AdaAct optimizer(*model);
  train_step(model, optimizer, row_batch(8));
  const auto weight = model->parameters()[0];
  model = nullptr;
  torch::linear(torch::randn({2, 6}, torch::kFloat64), weight).sum().backward();
  optimizer.step();
  EXPECT_EQ(optimizer.coverage().size(), 4U);
}

TEST(AdaAct, TorchScriptModuleTrainsLikeTheSameModelInCpp) {
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

TEST(AdaAct, FailureInAnObservationSurfacesFromStepUnlessDiscarded) {
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

TEST(AdaAct, ComplexLayerFollowsTheRuleForUnobserved) {
  const auto w = torch::randn({3, 4}, torch::kComplexFloat).requires_grad_();
  AdaAct optimizer(adaact::NamedTensors{{"w", w}}, AdaActOptions(0.1).weight_decay(0.0));
  const auto before = w.detach().clone();
  torch::real(torch::linear(torch::randn({2, 4}, torch::kComplexFloat), w)).sum().backward();
  optimizer.step();
  EXPECT_TRUE(torch::allclose(w.detach(), before - 0.1 * w.grad()));
}

// Found in review.

TEST(AdaAct, EmptyBatchLeavesTheMomentsAlone) {
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

TEST(AdaAct, ExplicitConvolutionNeedsItsGeometry) {
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

TEST(AdaAct, ModelMovedBeforeAStepWithoutObservationTakesItsMomentsAlong) {
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

TEST(AdaAct, PolicyThatDiffersBetweenGroupsIsRefusedAndThatOfTheGroupsCounts) {
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

TEST(AdaAct, GraphHeldOverAStepIsKnownToBeStale) {
  auto model = make_mlp();
  AdaAct optimizer(*model);
  const auto batch = row_batch(8);
  const auto loss = cross_entropy(model->forward(batch.x), batch.y);
  loss.backward({}, /*retain_graph=*/true);
  optimizer.step();
  EXPECT_TRUE(contains(error_of([&] { loss.backward(); }), "modified by an inplace operation"));
}

TEST(AdaAct, ParameterFrozenMidwayStaysWhereItIs) {
  auto model = make_mlp();
  AdaAct optimizer(*model);
  train_step(model, optimizer, row_batch(8));
  model->parameters()[0].requires_grad_(false);
  const auto before = snapshot(*model);
  train_step(model, optimizer, row_batch(8));
  EXPECT_TRUE(bit_identical(snapshot(*model)[0], before[0]));
  EXPECT_FALSE(torch::equal(snapshot(*model)[2], before[2]));
}

TEST(AdaAct, ParameterListedTwiceIsUpdatedOnce) {
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

TEST(AdaAct, OptionsOfAnotherOptimizerAreRefused) {
  torch::nn::Linear model(3, 2);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(model->parameters(), std::make_unique<torch::optim::AdamOptions>(0.1));
  EXPECT_TRUE(contains(error_of([&] { AdaAct optimizer(*model, groups); }), "not AdaActOptions"));
}

// Numbers that float32 has no room for.

TEST(AdaAct, AnEpsThatFloat32CannotDivideByIsRefused) {
  auto model = make_mlp(torch::kFloat32);
  EXPECT_TRUE(contains(error_of([&] { AdaAct(*model, AdaActOptions().eps(1e-60)); }),
                       "eps is 1e-60, expected a number ≥ 1e-30"));
  AdaAct optimizer(*model, AdaActOptions(10.0).eps(1e-30));
  auto batch = row_batch(8, torch::kFloat32);
  batch.x.select(1, 2).zero_();  // an input that is always 0
  for (int i = 0; i < 3; ++i) train_step(model, optimizer, batch);
  for (const auto& value : snapshot(*model)) EXPECT_TRUE(torch::isfinite(value).all().item<bool>());
}

TEST(AdaAct, InputsWhoseSquareIsInfiniteAreNotCalledInfinite) {
  auto model = make_mlp(torch::kFloat32);
  AdaAct optimizer(*model);
  auto batch = row_batch(8, torch::kFloat32);
  batch.x[0][0] = 2e19;
  const auto error = error_of([&] { train_step(model, optimizer, batch); });
  EXPECT_TRUE(contains(error,
                       "the second moment of the input (finite in float32 for inputs below "
                       "1.8e19) of the layer with weight '0.weight' is not finite"));
  batch.x[0][0] = 1e18;
  train_step(model, optimizer, batch);
}

TEST(AdaAct, ASliceWithoutRowsAsFirstUseIsNoStumblingBlock) {
  torch::nn::Linear model(4, 3);
  AdaAct optimizer(*model);
  const auto x = torch::randn({2, 4});
  torch::linear(x, model->weight.narrow(0, 0, 0));
  model->forward(x).sum().backward();
  optimizer.step();
  EXPECT_EQ(optimizer.second_moment(model->weight).size(0), 1);
}

// Gradients that do not come through the observed input.

/// Three steps with an L2 penalty in the loss and an input that is always 0.
double largest_weight_after_a_penalty(const AdaActOptions& options) {
  torch::manual_seed(3);
  torch::nn::Linear model(4, 3);
  AdaAct optimizer(*model, options);
  auto x = torch::randn({8, 4});
  x.select(1, 1).zero_();
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    (model->forward(x).square().mean() + model->weight.square().sum()).backward();
    optimizer.step();
  }
  return model->weight.abs().max().item<double>();
}

TEST(AdaAct, AStepOutOfAllProportionIsWarnedOfOnce) {
  WarningCapture warnings;
  EXPECT_GT(largest_weight_after_a_penalty({}), 1e6);
  ASSERT_EQ(warnings.messages.size(), 1U);
  EXPECT_TRUE(
      contains(warnings.messages[0], "has changed an element of 'weight' by more than 100"));
  EXPECT_TRUE(contains(warnings.messages[0], "clip_range"));
}

TEST(AdaAct, ALowerEndOfTheClipRangeKeepsThePenaltyInBounds) {
  WarningCapture warnings;
  const auto with_floor =
      AdaActOptions().clip_range({1e-2, std::numeric_limits<double>::infinity()});
  EXPECT_LT(largest_weight_after_a_penalty(with_floor), 5.0);
  EXPECT_TRUE(warnings.messages.empty());
}

TEST(AdaAct, AnOrthogonalityPenaltyIsNoObservation) {
  torch::manual_seed(4);
  torch::nn::Linear model(6, 4);
  AdaAct optimizer(*model);
  const auto x = 0.1 * torch::randn({16, 6});
  const auto identity = torch::eye(4);
  const auto penalty = (model->weight.matmul(model->weight.t()) - identity).square().sum();
  (model->forward(x).square().mean() + 1e-3 * penalty).backward();
  optimizer.step();
  EXPECT_TRUE(all_close(optimizer.second_moment(model->weight)[0], x.square().mean(0), 1e-6));
}

TEST(AdaAct, CoverageSaysThatAnInputIsMadeOfParameters) {
  const auto query = torch::randn({2, 3}).requires_grad_();
  const auto weight = torch::randn({4, 3}).requires_grad_();
  AdaAct optimizer(adaact::LayerMap(adaact::NamedTensors{{"query", query}, {"weight", weight}}));
  torch::linear(2.0 * query, weight).sum().backward();
  optimizer.step();
  const auto coverage = optimizer.coverage();
  EXPECT_FALSE(coverage[1].observed);
  EXPECT_EQ(coverage[1].reason, "what it is multiplied by is made of parameters alone");
}

/// Of a Linear of Python's with weight_norm, and a MultiheadAttention with a bias of its own for keys.
TEST(AdaAct, CoverageSaysWhatParametersOfLayersAreThatAreNotTheirWeights) {
  const auto of_shape = [](std::vector<std::int64_t> shape) {
    return torch::randn(shape).requires_grad_();
  };
  AdaAct optimizer(adaact::LayerMap(std::vector<adaact::DescribedLayer>{
      {"fc",
       adaact::LayerKind::Linear,
       {{"weight_v", of_shape({4, 3})}, {"weight_g", of_shape({4, 1})}, {"bias", of_shape({4})}},
       nullptr},
      {"attention",
       adaact::LayerKind::PackedProjection,
       {{"in_proj_weight", of_shape({6, 2})}, {"bias_k", of_shape({1, 1, 2})}},
       nullptr}}));
  const auto coverage = optimizer.coverage();
  for (const auto index : {0U, 1U, 2U}) {
    EXPECT_EQ(coverage[index].reason, "not seen as a layer's weight or bias") << index;
  }
  EXPECT_EQ(coverage[4].reason, "attention parameter that is no layer's weight");
}

TEST(AdaAct, AConvolutionWeightReadByALinearLayerCountsBothUses) {
  torch::manual_seed(5);
  const auto weight = torch::randn({3, 2, 1, 1}, torch::kFloat64).requires_grad_();
  AdaAct optimizer(adaact::LayerMap(adaact::NamedTensors{{"weight", weight}}));
  const auto image = torch::randn({2, 2, 3, 3}, torch::kFloat64);
  const auto rows = torch::randn({4, 2}, torch::kFloat64);
  const auto y =
      torch::conv2d(image, weight).sum() + torch::linear(rows, weight.view({3, 2})).sum();
  y.backward();
  optimizer.step();
  const auto sum = image.square().sum({0, 2, 3}) + rows.square().sum(0);
  EXPECT_TRUE(all_close(optimizer.second_moment(weight)[0], sum / (2 * 9 + 4), 1e-12));
}

}  // namespace
