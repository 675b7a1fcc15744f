#include "sweep/sweep_plan.h"

#include <cmath>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace {

using adaact::conflicts;
using adaact::shortest;
using adaact::SweepPlan;
using adaact::trials_of;
using adaact::testing::contains;
using adaact::testing::error_of;

SweepPlan small_plan() {
  SweepPlan plan;
  plan.base.dataset = "synthetic";
  plan.base.threads = 1;
  plan.optimizers = {"adaact", "sgd"};
  plan.learning_rates = {0.03, 0.1};
  return plan;
}

SweepPlan resolved(SweepPlan plan) {
  plan.resolve();
  return plan;
}

std::vector<std::string> names_of(const SweepPlan& plan) {
  std::vector<std::string> names;
  for (const auto& trial : trials_of(resolved(plan))) names.push_back(trial.name);
  return names;
}

std::vector<double> rates_in(const SweepPlan& plan) {
  std::vector<double> rates;
  for (const auto& trial : trials_of(resolved(plan))) rates.push_back(trial.learning_rate);
  return rates;
}

std::string error_of_plan(const std::function<void(SweepPlan&)>& change) {
  auto plan = small_plan();
  change(plan);
  return error_of([&] { plan.resolve(); });
}

TEST(SweepPlan, AGridIsEveryCombination) {
  EXPECT_EQ(names_of(small_plan()),
            (std::vector<std::string>{"adaact-lr-0.03-wd-0.002", "adaact-lr-0.1-wd-0.002",
                                      "sgd-lr-0.03-wd-0.0005", "sgd-lr-0.1-wd-0.0005"}));
  auto plan = small_plan();
  plan.optimizers = {"sgd"};
  plan.weight_decays = {0.0, 1e-5};
  EXPECT_EQ(names_of(plan), (std::vector<std::string>{"sgd-lr-0.03-wd-0", "sgd-lr-0.03-wd-1e-05",
                                                      "sgd-lr-0.1-wd-0", "sgd-lr-0.1-wd-1e-05"}));
  EXPECT_EQ(plan.size(), 4U);
}

TEST(SweepPlan, ATrialIsAConfigurationWithItsValues) {
  auto plan = small_plan();
  plan.base.optimizer_options = R"({"momentum": 0.5})";
  plan.optimizers = {"sgd"};
  plan.weight_decays = {0.25};
  const auto trials = trials_of(resolved(plan));
  ASSERT_EQ(trials.size(), 2U);
  const auto& options = trials[1].config.optimizer_options;
  EXPECT_EQ(trials[1].config.optimizer, "sgd");
  for (const char* part : {R"("lr":0.1)", R"("weight_decay":0.25)", R"("momentum":0.5)"}) {
    EXPECT_TRUE(contains(options, part));
  }
}

TEST(SweepPlan, AnOptimizerMayHaveRatesOfItsOwn) {
  auto plan = small_plan();
  plan.learning_rates_of["sgd"] = {0.5};
  EXPECT_EQ(rates_in(plan), (std::vector<double>{0.03, 0.1, 0.5}));
  plan.learning_rates.clear();
  plan.learning_rates_of["adaact"] = {0.2};
  EXPECT_EQ(rates_in(plan), (std::vector<double>{0.2, 0.5}));
}

TEST(SweepPlan, AValueThatIsGivenTwiceIsOneTrial) {
  auto plan = small_plan();
  plan.learning_rates = {0.1, 0.03, 0.1};
  plan.optimizers = {"sgd", "sgd"};
  EXPECT_EQ(rates_in(plan), (std::vector<double>{0.1, 0.03}));
}

TEST(SweepPlan, DrawsAreRepeatableAndMoreOfThemBeginWithTheSame) {
  auto plan = small_plan();
  plan.learning_rates = {1e-3, 1.0};
  plan.draws = 5;
  const auto five = rates_in(plan);
  ASSERT_EQ(five.size(), 10U);
  EXPECT_EQ(five, rates_in(plan));
  // A further optimizer is tried with the same values.
  EXPECT_EQ(std::vector<double>(five.begin(), five.begin() + 5),
            std::vector<double>(five.begin() + 5, five.end()));
  plan.optimizers = {"sgd"};
  plan.draws = 8;
  const auto eight = rates_in(plan);
  EXPECT_EQ(std::vector<double>(eight.begin(), eight.begin() + 5),
            std::vector<double>(five.begin(), five.begin() + 5));
  plan.base.seed = 1;
  EXPECT_NE(rates_in(plan), eight);
}

TEST(SweepPlan, DrawsAreLogUniformBetweenTheLimits) {
  auto plan = small_plan();
  plan.optimizers = {"sgd"};
  plan.learning_rates = {0.01, 1.0, 0.1};
  plan.weight_decays = {1e-5, 1e-3};
  plan.draws = 300;
  int small_rates = 0;
  int small_decays = 0;
  for (const auto& trial : trials_of(resolved(plan))) {
    EXPECT_GE(trial.learning_rate, 0.01);
    EXPECT_LE(trial.learning_rate, 1.0);
    EXPECT_GE(trial.weight_decay, 1e-5);
    EXPECT_LE(trial.weight_decay, 1e-3);
    small_rates += trial.learning_rate < 0.1 ? 1 : 0;
    small_decays += trial.weight_decay < 1e-4 ? 1 : 0;
  }
  // Half of them, within four standard deviations.
  EXPECT_NEAR(small_rates, 150, 35);
  EXPECT_NEAR(small_decays, 150, 35);
}

TEST(SweepPlan, NumbersHaveNoMoreDigitsThanTheyNeed) {
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(5e-4), "0.0005");
  EXPECT_EQ(shortest(1e-5), "1e-05");
  EXPECT_EQ(shortest(0.0), "0");
  EXPECT_EQ(std::stod(shortest(1.0 / 3.0)), 1.0 / 3.0);
}

TEST(SweepPlan, WhatIsWrongIsNamed) {
  const auto expect_error = [](const char* part, const std::function<void(SweepPlan&)>& change) {
    EXPECT_TRUE(contains(error_of_plan(change), part));
  };
  expect_error("lr is 0, expected numbers > 0", [](auto& p) { p.learning_rates = {0.1, 0.0}; });
  expect_error("lr is nan", [](auto& p) { p.learning_rates = {std::nan("")}; });
  expect_error("weight_decay is -1", [](auto& p) { p.weight_decays = {-1.0}; });
  expect_error("did you mean 'sgd'?", [](auto& p) { p.optimizers = {"sdg"}; });
  expect_error("optimizers are empty", [](auto& p) { p.optimizers.clear(); });
  expect_error("'sgd' has no learning rates", [](auto& p) {
    p.learning_rates.clear();
    p.learning_rates_of["adaact"] = {0.1};
  });
  expect_error("lr-of has 'adam', which is not among the optimizers",
               [](auto& p) { p.learning_rates_of["adam"] = {0.1}; });
  expect_error("draws is -1", [](auto& p) { p.draws = -1; });
  expect_error("expected two at least to draw between", [](auto& p) {
    p.draws = 3;
    p.learning_rates = {0.1};
  });
  expect_error("weight_decay is 0, expected numbers > 0 where it is drawn", [](auto& p) {
    p.draws = 3;
    p.weight_decays = {0.0, 0.1};
  });
  expect_error("different ones", [](auto& p) {
    p.draws = 30;
    p.learning_rates = {0.1, 0.101};
  });
  expect_error("optimizer_options has 'lr'",
               [](auto& p) { p.base.optimizer_options = R"({"lr": 1})"; });
  // Found before anything is trained, of every optimizer.
  expect_error("momentum", [](auto& p) { p.base.optimizer_options = R"({"momentum": 0.5})"; });
  expect_error("epochs is 0", [](auto& p) { p.base.epochs = 0; });
}

TEST(SweepPlan, IsWrittenAndRead) {
  auto plan = small_plan();
  plan.learning_rates_of["sgd"] = {1.0 / 3.0};
  plan.weight_decays = {0.0, 0.1};
  plan.base.optimizer_options = R"({"non_finite_policy": "skip"})";
  plan.draws = 0;
  plan = resolved(plan);
  const auto read = resolved(SweepPlan::from_json(plan.to_json(), "sweep.json"));
  EXPECT_EQ(read.to_json(), plan.to_json());
  EXPECT_TRUE(conflicts(plan, read).empty());
}

TEST(SweepPlan, ADamagedFileIsNamed) {
  for (const std::string text : {"", "[]", "{}", R"({"optimizers": 3})"}) {
    const auto error = error_of([&] { SweepPlan::from_json(text, "here/sweep.json"); });
    EXPECT_TRUE(contains(error, "here/sweep.json is no plan of a sweep")) << text;
  }
}

TEST(SweepPlan, MayGrowButNotChange) {
  const auto there = resolved(small_plan());
  auto more = small_plan();
  more.learning_rates.push_back(0.3);
  more.optimizers.push_back("adam");
  EXPECT_TRUE(conflicts(resolved(more), there).empty());
  const auto fewer = conflicts(there, resolved(more));
  ASSERT_EQ(fewer.size(), 1U);
  EXPECT_TRUE(contains(fewer[0], "does not have 5 of the trials there: adaact-lr-0.3-wd-0.002"));
  auto other = small_plan();
  other.base.epochs = 7;
  const auto lines = conflicts(resolved(other), there);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0], "epochs is 7, there it is 3");
}

}  // namespace
