// What all optimizers of the library's own share, seen through the simplest of them.

#include <sstream>

#include <adaact/adaact.h>
#include <gtest/gtest.h>

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

TEST(NamedOptimizer, AComplexParameterIsAnError) {
  const adaact::NamedTensors tensors{{"phase", torch::zeros({3}, torch::kComplexFloat)}};
  EXPECT_TRUE(contains(error_of([&] { Lamb optimizer(tensors); }), "'phase' is ComplexFloat"));
  const auto momentum = adaact::AdaActOptions().unobserved_rule(adaact::UnobservedRule::Momentum);
  EXPECT_TRUE(contains(error_of([&] { adaact::AdaAct optimizer(tensors, momentum); }),
                       "AdaAct: 'phase' is ComplexFloat"));
  adaact::AdaAct plain(tensors);  // the plain gradient has a meaning
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

}  // namespace
