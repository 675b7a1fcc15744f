// What all optimizers of the library's own share, seen through the simplest of them.

#include <sstream>

#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using adaact::Lamb;
using adaact::LambOptions;
using adaact::NonFinitePolicy;
using adaact::testing::contains;
using adaact::testing::copy_values;
using adaact::testing::error_of;
using adaact::testing::expect_bit_identical;
using adaact::testing::make_mlp;
using adaact::testing::row_batch;
using adaact::testing::snapshot;
using adaact::testing::train_step;
using torch::optim::OptimizerParamGroup;

TEST(NamedOptimizer, AParameterInTwoGroupsIsAnError) {
  auto model = make_mlp();
  const auto p = model->parameters();
  const std::vector<OptimizerParamGroup> groups{OptimizerParamGroup({p[0], p[1]}),
                                                OptimizerParamGroup({p[1], p[2]})};
  EXPECT_TRUE(contains(error_of([&] { Lamb(*model, groups); }),
                       "'0.bias' is in two parameter groups, 0 and 1"));
}

/// A model in which two layers are one, whose parameters() lists it twice.
struct TiedLayers {
  TiedLayers() { model->to(torch::kFloat64); }
  torch::nn::Linear layer{3, 3};
  torch::nn::Sequential model{layer, torch::nn::Tanh(), layer};
};

template <typename Optimizer, typename Options>
void expect_that_tied_layers_step_once(const Options& options) {
  torch::manual_seed(8);
  TiedLayers once;
  TiedLayers twice;
  copy_values(once.layer, twice.layer);
  ASSERT_EQ(twice.model->parameters().size(), 4U);
  Optimizer reference(*once.model, options);
  Optimizer optimizer(*twice.model, {OptimizerParamGroup(twice.model->parameters())}, options);
  for (int t = 0; t < 3; ++t) {
    const auto x = torch::randn({5, 3}, torch::kFloat64);
    for (auto* each : {&once, &twice}) {
      auto& its = each == &once ? reference : optimizer;
      its.zero_grad();
      each->model->forward(x).square().sum().backward();
      its.step();
    }
    expect_bit_identical(snapshot(*twice.layer), snapshot(*once.layer));
  }
  // Files from when names were listed as often as parameters still fit.
  auto state = optimizer.export_state();
  EXPECT_EQ(state.groups[0].parameters.size(), 2U);
  auto& names = state.groups[0].parameters;
  names.insert(names.end(), {names[0], names[1]});
  reference.import_state(state, "test");
}

TEST(NamedOptimizer, AParameterListedTwiceIsSteppedOnce) {
  expect_that_tied_layers_step_once<adaact::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9));
  expect_that_tied_layers_step_once<adaact::Adam>(torch::optim::AdamOptions(0.1));
  expect_that_tied_layers_step_once<adaact::AdamW>(torch::optim::AdamWOptions(0.1));
  expect_that_tied_layers_step_once<Lamb>(LambOptions(0.1));
  expect_that_tied_layers_step_once<adaact::Adan>(adaact::AdanOptions(0.1));
  expect_that_tied_layers_step_once<adaact::Foof>(adaact::FoofOptions(0.1));
  expect_that_tied_layers_step_once<adaact::Kfac>(adaact::KfacOptions(0.1));
  expect_that_tied_layers_step_once<adaact::AdaAct>(adaact::AdaActOptions(0.1));
}

TEST(NamedOptimizer, AComplexParameterIsAnError) {
  const adaact::NamedTensors tensors{{"phase", torch::zeros({3}, torch::kComplexFloat)}};
  EXPECT_TRUE(contains(error_of([&] { Lamb optimizer(tensors); }), "'phase' is ComplexFloat"));
  const auto momentum = adaact::AdaActOptions().unobserved_rule(adaact::UnobservedRule::Momentum);
  EXPECT_TRUE(contains(error_of([&] { adaact::AdaAct optimizer(tensors, momentum); }),
                       "AdaAct: 'phase' is ComplexFloat"));
  adaact::AdaAct plain(tensors);  // the plain gradient has a meaning
}

TEST(NamedOptimizer, AStateWhoseRuleTakesNoComplexParameterIsRefusedAsAWhole) {
  const adaact::NamedTensors tensors{{"phase", torch::zeros({3}, torch::kComplexFloat)}};
  adaact::AdaAct optimizer(tensors, adaact::AdaActOptions(0.1));
  auto state = optimizer.export_state();
  auto options = nlohmann::json::parse(state.groups[0].options);
  options["unobserved_rule"] = "momentum";
  options["lr"] = 0.5;
  state.groups[0].options = options.dump();
  const auto error = error_of([&] { optimizer.import_state(state, "file"); });
  EXPECT_TRUE(
      contains(error, "file: the options of a parameter group: AdaAct: 'phase' is ComplexFloat"));
  EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.1);
  const auto& kept =
      static_cast<const adaact::AdaActOptions&>(optimizer.param_groups()[0].options());
  EXPECT_EQ(kept.unobserved_rule(), adaact::UnobservedRule::PlainGradient);
}

TEST(NamedOptimizer, AStateWithMixedPoliciesIsRefusedAsAWhole) {
  auto model = make_mlp();
  const auto p = model->parameters();
  const auto groups = [&] {
    return std::vector<OptimizerParamGroup>{OptimizerParamGroup({p[0], p[1]}),
                                            OptimizerParamGroup({p[2], p[3]})};
  };
  Lamb optimizer(*model, groups(), LambOptions(0.1));
  train_step(model, optimizer, row_batch(4));
  auto state = optimizer.export_state();
  state.groups[1].options = LambOptions(0.77).non_finite_policy(NonFinitePolicy::Skip).to_json();
  state.counters["steps"] = 41;
  EXPECT_TRUE(contains(error_of([&] { optimizer.import_state(state, "test"); }),
                       "non_finite_policy differs"));
  EXPECT_EQ(optimizer.steps(), 1);
  EXPECT_EQ(optimizer.param_groups()[1].options().get_lr(), 0.1);
  train_step(model, optimizer, row_batch(4));
}

TEST(NamedOptimizer, GoesOnAfterAMove) {
  auto model = make_mlp();
  auto stays = make_mlp();
  copy_values(model, stays);
  adaact::Kfac first(*model);
  adaact::Kfac reference(*stays);
  const auto one = row_batch(8);
  train_step(model, first, one);
  train_step(stays, reference, one);
  adaact::Kfac moved(std::move(first));
  EXPECT_EQ(moved.steps(), 1);
  for (int i = 0; i < 6; ++i) {
    const auto batch = row_batch(8);
    train_step(model, moved, batch);
    train_step(stays, reference, batch);
  }
  expect_bit_identical(snapshot(*model), snapshot(*stays));
}

TEST(NamedOptimizer, FollowsAModelToAnotherDtype) {
  for (const char* name : {"adaact", "adan", "foof", "kfac", "lamb"}) {
    auto model = make_mlp(torch::kFloat32);
    const auto optimizer = adaact::make_optimizer(name, *model, R"({"lr": 0.01})");
    for (int i = 0; i < 2; ++i) train_step(model, *optimizer, row_batch(8, torch::kFloat32));
    model->to(torch::kFloat64);
    for (int i = 0; i < 6; ++i) train_step(model, *optimizer, row_batch(8));
    for (const auto& parameter : model->parameters()) {
      EXPECT_EQ(parameter.scalar_type(), torch::kFloat64);
      EXPECT_TRUE(torch::isfinite(parameter).all().item<bool>()) << name;
    }
  }
}

TEST(NamedOptimizer, ListsOfParametersStayWhereTheyAre) {
  auto model = make_mlp();
  adaact::AdaAct optimizer(*model);
  const auto* before = optimizer.param_groups()[0].params().data();
  train_step(model, optimizer, row_batch(8));
  EXPECT_EQ(optimizer.param_groups()[0].params().data(), before);
}

}  // namespace
