#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/paper/catalog.h"
#include "support/errors.h"
#include "support/made_up_found.h"

namespace {

using adaact::fig_power;
using adaact::Found;
using adaact::testing::add_run;
using adaact::testing::contains;
using adaact::testing::diverged_in;
using adaact::testing::drawn;
using adaact::testing::history_with;
using adaact::testing::nothing_found;
using adaact::testing::set_history;
using Verdict = adaact::Finding::Verdict;

/// Runs with these accuracies; three seeds, which differ a little.
Found found_with(double square_root, double other_powers, double full) {
  auto found = nothing_found(fig_power());
  for (const double change : {-0.001, 0.0, 0.001}) {
    for (const char* series : {"p = 0.25", "p = 0.75", "p = 1"}) {
      add_run(found, series, history_with({0.5, other_powers + change}));
    }
    add_run(found, "p = 0.5", history_with({0.5, square_root + change}));
    add_run(found, "full covariance", history_with({0.5, full + change}));
  }
  return found;
}

TEST(FigPower, ChangesNothingButThePowerAndTheCovariance) {
  adaact::ExperimentForm form;
  form.seeds = {0};
  const auto plan = fig_power().plan(form);
  ASSERT_EQ(plan.runs.size(), 5U);
  EXPECT_EQ(fig_power().plan({}).runs.size(), 15U) << "three seeds of each";
  const auto options = [&](std::size_t run) {
    return nlohmann::json::parse(plan.runs[run].config.optimizer_options);
  };
  EXPECT_EQ(options(0).at("power"), 0.25);
  EXPECT_EQ(options(3).at("power"), 1.0);
  EXPECT_EQ(options(3).at("weight_decay"), 0.002);
  EXPECT_EQ(options(4).at("covariance"), "full");
  for (const auto& run : plan.runs) {
    EXPECT_EQ(run.config.model, "resnet20");
    auto config = run.config;
    EXPECT_NO_THROW(config.resolve()) << run.series;
  }
}

TEST(FigPower, ShowsAccuraciesInTheLegend) {
  const auto page = drawn(fig_power(), found_with(0.925, 0.91, 0.92));
  EXPECT_TRUE(contains(page, "p = 0.5: 92.50 %"));
  EXPECT_TRUE(contains(page, "full covariance: 92.00 %"));
  EXPECT_TRUE(contains(page, "refreshed every T_inv = 50 steps"));
}

TEST(FigPower, ComparesTheSquareRootWithTheOthers) {
  const auto agreeing = fig_power().findings(found_with(0.925, 0.91, 0.92));
  EXPECT_EQ(agreeing[0].verdict, Verdict::Agrees);
  EXPECT_EQ(agreeing[1].verdict, Verdict::Agrees);
  EXPECT_TRUE(contains(agreeing[1].measured, "The diagonal 92.50 %, the full matrix 92.00 %."));
  const auto disagreeing = fig_power().findings(found_with(0.91, 0.915, 0.92));
  EXPECT_EQ(disagreeing[0].verdict, Verdict::Disagrees);
  EXPECT_EQ(disagreeing[1].verdict, Verdict::Disagrees);
}

TEST(FigPower, CallsSmallDifferencesNone) {
  const auto findings = fig_power().findings(found_with(0.92, 0.919, 0.921));
  for (const auto& finding : findings) {
    EXPECT_EQ(finding.verdict, Verdict::Open);
    EXPECT_TRUE(contains(finding.measured, "Too close to call"));
  }
  EXPECT_TRUE(contains(findings[0].measured, "p = 0.5 and p = 0.25 (0.10 points, "));
}

TEST(FigPower, OfOneSeedComparesNothing) {
  adaact::ExperimentForm form;
  form.seeds = {0};
  auto found = nothing_found(fig_power(), form);
  for (auto& run : found.runs) {
    run.history = history_with({run.planned.series == "p = 0.5" ? 0.9 : 0.5});
  }
  for (const auto& finding : fig_power().findings(found)) {
    EXPECT_EQ(finding.verdict, Verdict::Open);
    EXPECT_TRUE(contains(finding.measured, "50.00 %. One seed each: no verdict."));
  }
}

TEST(FigPower, ShowsARunThatDiverged) {
  auto found = found_with(0.925, 0.91, 0.92);
  for (const auto run : {9, 10, 11}) {
    set_history(found.runs.at(run), diverged_in(1, {0.1, 0.1}));  // p = 1
  }
  EXPECT_TRUE(contains(drawn(fig_power(), found), "diverged in epoch 1"));
  const auto finding = fig_power().findings(found).front();
  EXPECT_EQ(finding.verdict, Verdict::Agrees);
  EXPECT_TRUE(contains(finding.measured, "p = 1 10.00 % (diverged in epoch 1, 1, 1)"));
}

TEST(FigPower, IsOpenWhileRunsAreMissing) {
  auto found = nothing_found(fig_power());
  add_run(found, "p = 0.5", history_with({0.9}));
  EXPECT_TRUE(contains(drawn(fig_power(), found), "not carried out yet"));
  for (const auto& finding : fig_power().findings(found)) {
    EXPECT_EQ(finding.verdict, Verdict::Open);
  }
  const auto missing = fig_power().to_json(found).at("series").at(0);
  EXPECT_EQ(missing.at("state"), "not carried out yet");
}

}  // namespace
