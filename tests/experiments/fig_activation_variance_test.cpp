#include <gtest/gtest.h>

#include "experiments/catalog.h"
#include "support/errors.h"
#include "support/made_up_found.h"
#include "support/made_up_variances.h"

namespace {

using adaact::ExperimentForm;
using adaact::fig_activation_variance;
using adaact::Found;
using adaact::RunHistory;
using adaact::testing::add_run;
using adaact::testing::add_variances;
using adaact::testing::contains;
using adaact::testing::drawn;
using adaact::testing::history_with;
using adaact::testing::kNaN;
using adaact::testing::nothing_found;
using Verdict = adaact::Finding::Verdict;

RunHistory history(double variance, const std::vector<double>& top1_by_epoch) {
  auto run = history_with(top1_by_epoch);
  add_variances(run, variance);
  return run;
}

/// As the paper has it.
Found papers_result() {
  auto found = nothing_found(fig_activation_variance());
  add_run(found, "AdaAct", history(0.123, {0.4, 0.7}));
  add_run(found, "SGD", history(0.456, {0.3, 0.68}));
  add_run(found, "Adam", history(0.789, {0.5, 0.66}));
  return found;
}

TEST(FigActivationVariance, TrainsLeNetWithThreeOptimizers) {
  const auto plan = fig_activation_variance().plan({});
  ASSERT_EQ(plan.runs.size(), 3U);
  for (const auto& run : plan.runs) {
    EXPECT_EQ(run.config.model, "lenet5");
    EXPECT_EQ(run.config.dataset, "cifar10");
    EXPECT_EQ(run.config.epochs, 200);
    EXPECT_TRUE(run.activation_variances);
  }
  ExperimentForm quick;
  quick.quick = true;
  quick.seeds = {3, 4};
  const auto smaller = fig_activation_variance().plan(quick);
  ASSERT_EQ(smaller.runs.size(), 6U);
  EXPECT_EQ(smaller.runs[1].config.seed, 4U);
  EXPECT_EQ(smaller.runs[1].config.dataset, "fashion-mnist");
  EXPECT_LT(smaller.runs[1].config.epochs, 200);
}

TEST(FigActivationVariance, ShowsHiddenLayersAndNotTheImages) {
  const auto page = drawn(fig_activation_variance(), papers_result());
  EXPECT_TRUE(contains(page,
                       "<th scope=\"row\">conv2</th><td class=\"number best\">0.123</td>"
                       "<td class=\"number\">0.456</td><td class=\"number\">0.789</td>"));
  EXPECT_TRUE(contains(page, "Activation variance over epochs, fc3"));
  EXPECT_EQ(page.find("<th scope=\"row\">conv1</th>"), std::string::npos);
  EXPECT_TRUE(contains(page, "70.00 %"));
}

TEST(FigActivationVariance, AgreesWithThePaper) {
  const auto findings = fig_activation_variance().findings(papers_result());
  ASSERT_EQ(findings.size(), 3U);
  for (const auto& finding : findings) EXPECT_EQ(finding.verdict, Verdict::Agrees) << finding.claim;
  EXPECT_TRUE(contains(findings[0].measured, "fc3: AdaAct 0.123, SGD 0.456, Adam 0.789."));
  EXPECT_TRUE(contains(findings[1].measured, "AdaAct 70.00 %, SGD 68.00 %, Adam 66.00 %."));
}

TEST(FigActivationVariance, DisagreesWithThePaper) {
  auto found = nothing_found(fig_activation_variance());
  add_run(found, "AdaAct", history(0.3, {0.5, 0.6}));
  add_run(found, "SGD", history(0.2, {0.3, 0.7}));
  add_run(found, "Adam", history(0.4, {0.3, 0.7}));
  for (const auto& finding : fig_activation_variance().findings(found)) {
    EXPECT_EQ(finding.verdict, Verdict::Disagrees) << finding.claim;
  }
}

TEST(FigActivationVariance, NamesTheLayersThatAreExceptions) {
  auto found = papers_result();
  for (auto& epoch : found.runs[0].history->epochs) epoch.activation_variances[2].mean = 5.0;
  const auto finding = fig_activation_variance().findings(found).front();
  EXPECT_EQ(finding.verdict, Verdict::Disagrees);
  EXPECT_TRUE(contains(finding.measured, "Not in fc1. conv2: AdaAct 0.123,"));
}

TEST(FigActivationVariance, IsOpenWhileRunsAreMissing) {
  auto found = nothing_found(fig_activation_variance());
  EXPECT_TRUE(contains(drawn(fig_activation_variance(), found), "Nothing to show yet."));
  add_run(found, "AdaAct", history(0.1, {0.5}));
  EXPECT_TRUE(contains(drawn(fig_activation_variance(), found), "not carried out yet"));
  for (const auto& finding : fig_activation_variance().findings(found)) {
    EXPECT_EQ(finding.verdict, Verdict::Open);
  }
}

TEST(FigActivationVariance, ComparesNothingWithARunThatDiverged) {
  auto found = papers_result();
  auto& sgd = *found.runs[1].history;
  sgd.epochs.back().test.loss = kNaN;
  sgd.epochs.back().activation_variances.clear();
  add_variances(sgd, kNaN);
  EXPECT_TRUE(contains(drawn(fig_activation_variance(), found), "diverged in epoch 2"));
  const auto finding = fig_activation_variance().findings(found).front();
  EXPECT_EQ(finding.verdict, Verdict::Open);
  EXPECT_TRUE(contains(finding.measured, "SGD 68.00 % (diverged in epoch 2)"));
}

TEST(FigActivationVariance, GivesItsNumbers) {
  const auto json = fig_activation_variance().to_json(papers_result());
  const auto& adam = json.at("series").at(2);
  EXPECT_EQ(adam.at("name"), "Adam");
  EXPECT_DOUBLE_EQ(adam.at("final_test_top1"), 0.66);
  EXPECT_DOUBLE_EQ(adam.at("layers").at("fc2").at("variance"), 0.789);
  EXPECT_EQ(adam.at("layers").size(), 4U);
}

}  // namespace
