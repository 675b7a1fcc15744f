#include "experiments/shelf/cost.h"

#include <gtest/gtest.h>

#include "experiments/paper/paper_runs.h"

namespace {

using adaact::cost_text;
using adaact::CostOn;
using adaact::estimate_cost;
using adaact::ExperimentPlan;
using adaact::paper_run;

ExperimentPlan plan_of(const std::string& optimizer, const std::string& model) {
  ExperimentPlan plan;
  plan.runs = {{"", paper_run(optimizer, model, "cifar10", 0), false}};
  return plan;
}

TEST(Cost, IsThatOfTheSteps) {
  const auto plan = plan_of("adaact", "resnet20");
  EXPECT_NEAR(estimate_cost(plan, CostOn::TwoCores).seconds, 200 * 391 * 0.264, 100.0);
  EXPECT_EQ(cost_text(estimate_cost(plan, CostOn::TwoCores)), "about 6 h");
  EXPECT_EQ(cost_text(estimate_cost(plan, CostOn::Gpu)), "about 2 min");
}

TEST(Cost, OfSamIsThatOfTwoPassesAStep) {
  auto plan = plan_of("adaact", "resnet20");
  const auto of_one = estimate_cost(plan, CostOn::Gpu).seconds;
  plan.runs.front().config.optimizer = "sam";
  EXPECT_DOUBLE_EQ(estimate_cost(plan, CostOn::Gpu).seconds, 2.0 * of_one);
}

TEST(Cost, OfMatrixProductsIsHigher) {
  EXPECT_EQ(cost_text(estimate_cost(plan_of("kfac", "resnet20"), CostOn::Gpu)), "about 8 min");
  auto plan = plan_of("adaact", "resnet20");
  plan.runs.front().config.optimizer_options = R"({"covariance": "full"})";
  EXPECT_EQ(cost_text(estimate_cost(plan, CostOn::Gpu)), "about 9 min");
}

TEST(Cost, OfSmallerImagesIsSmaller) {
  auto plan = plan_of("adaact", "resnet50");
  const auto whole = estimate_cost(plan, CostOn::Gpu).seconds;
  plan.runs.front().config.image_size = 112;
  EXPECT_DOUBLE_EQ(estimate_cost(plan, CostOn::Gpu).seconds, whole / 4.0);
}

TEST(Cost, SaysWhereItDoesNotKnow) {
  auto plan = plan_of("kfac", "resnet50");
  EXPECT_EQ(cost_text(estimate_cost(plan, CostOn::Gpu)), "–");
  plan.runs.push_back(plan_of("adaact", "resnet20").runs.front());
  EXPECT_EQ(cost_text(estimate_cost(plan, CostOn::Gpu)), "over 2 min");
  EXPECT_EQ(cost_text(estimate_cost({}, CostOn::TwoCores)), "–");
}

TEST(Cost, OfAMeasurementIsThatOfStepsThatAreWatched) {
  ExperimentPlan plan;
  plan.measurements.emplace_back();
  plan.measurements.back().as_long_as = {paper_run("adaact", "lenet5", "cifar10", 0)};
  EXPECT_NEAR(estimate_cost(plan, CostOn::Gpu).seconds, 200 * 391 * 3.67e-3, 1.0);
  EXPECT_EQ(cost_text(estimate_cost(plan_of("adaact", "lenet5"), CostOn::Gpu)), "about 44 s");
}

TEST(Cost, OfAQuickRunIsSeconds) {
  auto plan = plan_of("adaact", "lenet5");
  shrink(plan.runs.front().config);
  EXPECT_EQ(cost_text(estimate_cost(plan, CostOn::TwoCores)), "about 4 s");
}

}  // namespace
