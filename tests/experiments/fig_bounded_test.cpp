#include <cmath>

#include <gtest/gtest.h>

#include "experiments/paper/catalog.h"
#include "support/errors.h"
#include "support/made_up_found.h"
#include "support/made_up_variances.h"

namespace {

using adaact::ActivationVariance;
using adaact::fig_activation_variance;
using adaact::fig_bounded;
using adaact::Found;
using adaact::testing::add_run;
using adaact::testing::add_variances;
using adaact::testing::contains;
using adaact::testing::drawn;
using adaact::testing::ended_after;
using adaact::testing::history_with;
using adaact::testing::kNaN;
using adaact::testing::nothing_found;
using Verdict = adaact::Finding::Verdict;

constexpr std::size_t kConv2 = 1;
constexpr std::size_t kFc2 = 3;

/// Of one of the seeds alone.
Found nothing_of_a_seed() {
  adaact::ExperimentForm form;
  form.seeds = {0};
  return nothing_found(fig_bounded(), form);
}

Found twenty_epochs() {
  auto found = nothing_of_a_seed();
  auto run = history_with(std::vector<double>(20, 0.6));
  add_variances(run, 0.4);
  add_run(found, "AdaAct", run);
  return found;
}

ActivationVariance& variance(Found& found, std::size_t epoch, std::size_t layer) {
  return found.runs.front().history->epochs[epoch].activation_variances[layer];
}

TEST(FigBounded, IsMadeOfARunThatAnotherFigureHasToo) {
  const auto plan = fig_bounded().plan({});
  ASSERT_EQ(plan.runs.size(), 3U);
  const auto others = fig_activation_variance().plan({}).runs;
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    EXPECT_EQ(plan.runs[i].config.to_json(), others.at(i).config.to_json());
    EXPECT_TRUE(plan.runs[i].activation_variances);
  }
}

TEST(FigBounded, ShowsBoundsOfLayersAndOfSingleActivations) {
  auto found = twenty_epochs();
  variance(found, 5, kConv2).lowest_mean = 0.111;
  variance(found, 6, kConv2).highest_mean = 2.22;
  const auto page = drawn(fig_bounded(), found);
  EXPECT_TRUE(contains(page,
                       "<th scope=\"row\">conv1 out</th><td class=\"number\">0.111</td>"
                       "<td class=\"number\">2.22</td><td class=\"number\">0.04</td>"
                       "<td class=\"number\">4</td>"));
  EXPECT_EQ(page.find("777"), std::string::npos) << "images are no activations";
  EXPECT_DOUBLE_EQ(fig_bounded().to_json(found).at("layers").at("conv2").at("lowest_layer_mean"),
                   0.111);
}

TEST(FigBounded, AgreesWhereBoundsHold) {
  for (const auto& finding : fig_bounded().findings(twenty_epochs())) {
    EXPECT_EQ(finding.verdict, Verdict::Agrees) << finding.claim << finding.measured;
  }
}

TEST(FigBounded, DeadActivationsSpeakAgainstTheAssumption) {
  auto found = twenty_epochs();
  variance(found, 7, kFc2).lowest = 0.0;
  variance(found, 7, kFc2).lowest_moment = 0.0;
  const auto findings = fig_bounded().findings(found);
  EXPECT_EQ(findings[0].verdict, Verdict::Agrees) << "layer means are bounded all the same";
  EXPECT_EQ(findings[1].verdict, Verdict::Disagrees);
  EXPECT_TRUE(contains(findings[1].measured, "fc1 out 0 to 8"));
  EXPECT_TRUE(contains(findings[1].measured, "In fc1 out an activation was 0 for all images"));
  EXPECT_TRUE(contains(drawn(fig_bounded(), found), "<td class=\"number\">0</td>"));
}

TEST(FigBounded, AConstantActivationIsNotADeadOne) {
  auto found = twenty_epochs();
  variance(found, 7, kFc2).lowest = 0.0;
  EXPECT_EQ(fig_bounded().findings(found)[1].verdict, Verdict::Agrees);
}

TEST(FigBounded, WithoutMomentsOfSingleActivationsTheAssumptionIsOpen) {
  auto found = twenty_epochs();
  for (auto& epoch : found.runs.front().history->epochs) {
    for (auto& layer : epoch.activation_variances)
      layer.lowest_moment = layer.highest_moment = kNaN;
  }
  const auto all_vary = fig_bounded().findings(found)[1];
  EXPECT_EQ(all_vary.verdict, Verdict::Open);
  EXPECT_TRUE(contains(all_vary.measured, "was not measured in these runs"));
  EXPECT_TRUE(contains(all_vary.measured, "fc1 out 0.04 to 4"));
  EXPECT_EQ(all_vary.measured.find("hints"), std::string::npos);
  variance(found, 7, kFc2).lowest = 0.0;
  const auto one_is_constant = fig_bounded().findings(found)[1];
  EXPECT_EQ(one_is_constant.verdict, Verdict::Open);
  EXPECT_TRUE(
      contains(one_is_constant.measured, "In fc1 out a variance is exactly 0, which hints"));
}

TEST(FigBounded, RunsThatHaveMomentsOfSingleActivationsDecideForThoseThatHaveNot) {
  auto found = twenty_epochs();
  variance(found, 7, kFc2).lowest_moment = 0.0;
  found.runs.push_back(found.runs.front());
  for (auto& epoch : found.runs.back().history->epochs) {
    for (auto& layer : epoch.activation_variances) {
      layer.lowest_moment = layer.highest_moment = kNaN;
    }
  }
  const auto finding = fig_bounded().findings(found)[1];
  EXPECT_EQ(finding.verdict, Verdict::Disagrees);
  EXPECT_TRUE(contains(finding.measured, "in 1 of 2 runs: ")) << finding.measured;
}

TEST(FigBounded, OnePositionOfAConvolutionDecidesNothing) {
  auto found = twenty_epochs();
  variance(found, 7, kConv2).lowest = 0.0;
  variance(found, 7, kConv2).lowest_moment = 0.0;
  EXPECT_EQ(fig_bounded().findings(found)[1].verdict, Verdict::Agrees);
}

/// The learning rate as a part of what it begins with.
double annealed(std::size_t epoch, std::size_t epochs) {
  constexpr double kPi = 3.14159265358979;
  return 0.5 * (1.0 + std::cos(kPi * static_cast<double>(epoch) / static_cast<double>(epochs)));
}

/// The variance of fc2's input moves as far as the cosine lets it.
Found moving_with_the_rate(double growth_per_epoch) {
  auto found = twenty_epochs();
  double factor = 1.0;
  for (std::size_t epoch = 0; epoch < 20; ++epoch) {
    factor *= 1.0 + growth_per_epoch * annealed(epoch, 20);
    variance(found, epoch, kFc2).lowest_mean *= factor;
    variance(found, epoch, kFc2).highest_mean *= factor;
  }
  return found;
}

TEST(FigBounded, IsOpenWhereOnlyTheScheduleEndsTheGrowth) {
  const auto finding = fig_bounded().findings(moving_with_the_rate(0.2)).front();
  EXPECT_EQ(finding.verdict, Verdict::Open) << finding.measured;
  EXPECT_TRUE(contains(finding.measured, "conv1 out 0 %, conv2 out 0 %, fc1 out 49.39 % above"));
  EXPECT_TRUE(contains(finding.measured, " % above, fc2 out 0 %. Taken for bounds"));
}

TEST(FigBounded, IsOpenWhereOnlyTheScheduleEndsTheFall) {
  const auto finding = fig_bounded().findings(moving_with_the_rate(-0.2)).front();
  EXPECT_EQ(finding.verdict, Verdict::Open) << finding.measured;
  EXPECT_TRUE(contains(finding.measured, " % below, fc2 out 0 %. Taken for bounds"));
}

TEST(FigBounded, AgreesWhereTheGrowthEndsInTheFirstHalf) {
  auto found = twenty_epochs();
  for (std::size_t epoch = 0; epoch < 5; ++epoch) {
    variance(found, epoch, kFc2).lowest_mean *= 0.1;
    variance(found, epoch, kFc2).highest_mean *= 0.1;
  }
  EXPECT_EQ(fig_bounded().findings(found).front().verdict, Verdict::Agrees);
}

TEST(FigBounded, ARunThatDivergedHasNoBounds) {
  auto found = twenty_epochs();
  variance(found, 19, kFc2) = {"fc2.weight", kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN};
  for (const auto& finding : fig_bounded().findings(found)) {
    EXPECT_EQ(finding.verdict, Verdict::Disagrees) << finding.claim;
  }
  EXPECT_TRUE(contains(drawn(fig_bounded(), found), "<td class=\"number\">–</td>"));
}

TEST(FigBounded, OneThatEndedIsNoJudgeOfWhatItDidNotDo) {
  auto found = nothing_of_a_seed();
  add_run(found, "AdaAct", ended_after({}));
  EXPECT_TRUE(contains(drawn(fig_bounded(), found), "Nothing to show yet."));
  for (const auto& finding : fig_bounded().findings(found)) {
    EXPECT_EQ(finding.verdict, Verdict::Open) << finding.claim;
    EXPECT_EQ(finding.measured, "A run diverged in epoch 1. Before that: not an epoch.");
  }
}

TEST(FigBounded, IsOpenWhileTheRunIsMissing) {
  const auto found = nothing_found(fig_bounded());
  EXPECT_TRUE(contains(drawn(fig_bounded(), found), "Nothing to show yet."));
  for (const auto& finding : fig_bounded().findings(found)) {
    EXPECT_EQ(finding.verdict, Verdict::Open);
  }
}

}  // namespace
