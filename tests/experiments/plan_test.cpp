// Parts of experiments.

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "experiments/paper/catalog.h"
#include "support/errors.h"

namespace {

using adaact::ExperimentForm;
using adaact::part_of_plan;
using adaact::testing::contains;
using adaact::testing::error_of;

TEST(PartOfPlan, LeavesThePartThatIsAskedFor) {
  ExperimentForm form;
  form.models = {"resnet34", "resnet20"};
  form.optimizers = {"adaact", "sgd"};
  form.seeds = {7};
  const auto plan = part_of_plan(adaact::table_cifar(), form);
  std::set<std::string> pairs;
  for (const auto& run : plan.runs) pairs.insert(run.config.model + " " + run.config.optimizer);
  EXPECT_EQ(plan.runs.size(), 4U);
  EXPECT_EQ(pairs, (std::set<std::string>{"resnet20 adaact", "resnet20 sgd", "resnet34 adaact",
                                          "resnet34 sgd"}));
  EXPECT_EQ(part_of_plan(adaact::table_cifar(), {}).runs.size(), 140U);
}

TEST(PartOfPlan, MeasurementsBelongToTheWhole) {
  ExperimentForm form;
  EXPECT_EQ(part_of_plan(adaact::fig_covariance_heatmap(), form).measurements.size(), 1U);
  form.optimizers = {"adaact"};
  EXPECT_TRUE(part_of_plan(adaact::fig_covariance_heatmap(), form).measurements.empty());
}

TEST(PartOfPlan, NamesWhatTheExperimentDoesNotHave) {
  ExperimentForm form;
  form.models = {"resnet20", "vgg"};
  EXPECT_TRUE(contains(error_of([&] { part_of_plan(adaact::table_cifar(), form); }),
                       "table-cifar has no runs of the model 'vgg'; it has: resnet20, resnet32, "
                       "resnet34, densenet121"));
  ExperimentForm of_optimizer;
  of_optimizer.optimizers = {"adamm"};
  EXPECT_TRUE(contains(error_of([&] { part_of_plan(adaact::theory_convergence(), of_optimizer); }),
                       "theory-convergence has no runs of the optimizer 'adamm'"));
}

}  // namespace
