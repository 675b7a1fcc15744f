#include <gtest/gtest.h>

#include "experiments/paper/catalog.h"
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
using adaact::testing::ended_after;
using adaact::testing::history_with;
using adaact::testing::kNaN;
using adaact::testing::nothing_found;
using Verdict = adaact::Finding::Verdict;

RunHistory history(double variance, const std::vector<double>& top1_by_epoch) {
  auto run = history_with(top1_by_epoch);
  add_variances(run, variance);
  return run;
}

/// Adds runs of three seeds, which hardly differ.
void add_seeds(Found& found, const std::string& series, double variance,
               std::vector<double> top1_by_epoch) {
  for (const double change : {-0.001, 0.001, 0.001}) {
    for (auto& top1 : top1_by_epoch) top1 += change;
    add_run(found, series, history(variance, top1_by_epoch));
  }
}

/// Runs in which everything is as the paper says.
Found papers_result() {
  auto found = nothing_found(fig_activation_variance());
  add_seeds(found, "AdaAct", 0.123, {0.4, 0.7});
  add_seeds(found, "SGD", 0.456, {0.3, 0.68});
  add_seeds(found, "Adam", 0.789, {0.5, 0.66});
  return found;
}

TEST(FigActivationVariance, TrainsLeNetWithThreeOptimizers) {
  const auto plan = fig_activation_variance().plan({});
  ASSERT_EQ(plan.runs.size(), 9U) << "of three seeds, because accuracies are compared";
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
                       "<th scope=\"row\">conv1 out</th><td class=\"number best\">0.123</td>"
                       "<td class=\"number\">0.456</td><td class=\"number\">0.789</td>"));
  EXPECT_TRUE(contains(page, "Activation variance over epochs, fc2 out"));
  EXPECT_EQ(page.find("fc3 out"), std::string::npos);
  EXPECT_EQ(page.find("777"), std::string::npos);
  EXPECT_TRUE(contains(page, "70.00 %"));
}

TEST(FigActivationVariance, ShowsTheSecondMomentOfTheLayersGeometry) {
  auto found = papers_result();
  for (auto& run : found.runs) {
    run.history->epochs[0].second_moments[1].second = 3.0;  // of conv2
    run.history->epochs[1].second_moments[1].second = 5.0;
  }
  const auto page = drawn(fig_activation_variance(), found);
  EXPECT_TRUE(contains(page, "E[a²], the second moment that AdaAct uses"));
  EXPECT_TRUE(contains(page, "<th scope=\"row\">conv1 out</th><td class=\"number\">4</td>"));
  EXPECT_TRUE(contains(page, "of the last step of each"));
  const auto json = fig_activation_variance().to_json(found);
  EXPECT_DOUBLE_EQ(json.at("series").at(0).at("layers").at("conv2").at("second_moment"), 4.0);
}

TEST(FigActivationVariance, AgreesWithThePaper) {
  const auto findings = fig_activation_variance().findings(papers_result());
  ASSERT_EQ(findings.size(), 3U);
  for (const auto& finding : findings) EXPECT_EQ(finding.verdict, Verdict::Agrees) << finding.claim;
  EXPECT_TRUE(contains(findings[0].measured, "fc2 out: AdaAct 0.123, SGD 0.456, Adam 0.789."));
  EXPECT_TRUE(contains(findings[1].measured, "AdaAct 70.00 %, SGD 68.00 %, Adam 66.00 %."));
}

TEST(FigActivationVariance, DisagreesWithThePaper) {
  auto found = nothing_found(fig_activation_variance());
  add_seeds(found, "AdaAct", 0.3, {0.5, 0.6});
  add_seeds(found, "SGD", 0.2, {0.3, 0.7});
  add_seeds(found, "Adam", 0.4, {0.3, 0.7});
  for (const auto& finding : fig_activation_variance().findings(found)) {
    EXPECT_EQ(finding.verdict, Verdict::Disagrees) << finding.claim;
  }
}

TEST(FigActivationVariance, OfOneSeedComparesNoAccuracies) {
  ExperimentForm form;
  form.seeds = {0};
  auto found = nothing_found(fig_activation_variance(), form);
  add_run(found, "AdaAct", history(0.1, {0.4, 0.9}));
  add_run(found, "SGD", history(0.2, {0.4, 0.6}));
  add_run(found, "Adam", history(0.2, {0.6, 0.6}));
  const auto findings = fig_activation_variance().findings(found);
  EXPECT_EQ(findings[0].verdict, Verdict::Agrees);
  for (const auto index : {1, 2}) {
    EXPECT_EQ(findings.at(index).verdict, Verdict::Open);
    EXPECT_TRUE(contains(findings.at(index).measured, "60.00 %. One seed each: no verdict."));
  }
}

TEST(FigActivationVariance, NamesTheLayersThatAreExceptions) {
  auto found = papers_result();
  for (std::size_t seed = 0; seed < 3; ++seed) {
    for (auto& epoch : found.runs[seed].history->epochs) epoch.activation_variances[2].mean = 5.0;
  }
  const auto finding = fig_activation_variance().findings(found).front();
  EXPECT_EQ(finding.verdict, Verdict::Disagrees);
  EXPECT_TRUE(contains(finding.measured, "Not in conv2 out. conv1 out: AdaAct 0.123,"));
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
  auto& sgd = *found.runs[3].history;
  sgd.epochs.back().test.loss = kNaN;
  for (auto& epoch : sgd.epochs) epoch.activation_variances.clear();
  add_variances(sgd, kNaN);
  EXPECT_TRUE(contains(drawn(fig_activation_variance(), found), "diverged in epoch 2"));
  const auto finding = fig_activation_variance().findings(found).front();
  EXPECT_EQ(finding.verdict, Verdict::Open);
  EXPECT_TRUE(contains(finding.measured, "SGD 68.00 % (diverged in epoch 2)"));
}

TEST(FigActivationVariance, ComparesNothingWhereDivergenceEndedEveryRun) {
  auto found = nothing_found(fig_activation_variance());
  for (auto& run : found.runs) run.history = ended_after({});
  EXPECT_TRUE(contains(drawn(fig_activation_variance(), found), "diverged in epoch 1"));
  const auto finding = fig_activation_variance().findings(found).front();
  EXPECT_EQ(finding.verdict, Verdict::Open);
  EXPECT_TRUE(contains(finding.measured, "There is no variance of every run"));
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
