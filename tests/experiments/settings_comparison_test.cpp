// Experiments that hold settings of one model against each other.

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/made_up_cifar.h"
#include "experiments/paper/catalog.h"
#include "support/errors.h"
#include "support/made_up_found.h"

namespace {

using adaact::Experiment;
using adaact::foof_variants;
using adaact::Found;
using adaact::full_covariance_cost;
using adaact::weight_decay;
using adaact::testing::add_run;
using adaact::testing::contains;
using adaact::testing::drawn;
using adaact::testing::finding_about;
using adaact::testing::history_with;
using adaact::testing::nothing_found;
using Verdict = adaact::Finding::Verdict;

nlohmann::json options_of(const Found::Run& run) {
  return nlohmann::json::parse(run.planned.config.optimizer_options);
}

const Found::Run& run_of(const std::string& series, const Found& found) {
  for (const auto& run : found.runs) {
    if (run.planned.series == series) return run;
  }
  throw std::runtime_error("no run is planned of " + series);
}

/// Adds three seeds, which hardly differ.
void add_seeds(Found& found, const std::string& series, double early, double final) {
  for (const double change : {-0.001, 0.0, 0.001}) {
    add_run(found, series, history_with({early + change, final + change}));
  }
}

TEST(SettingsComparison, AllOfThemCanBeTrained) {
  for (const Experiment* experiment :
       {&weight_decay(), &foof_variants(), &full_covariance_cost()}) {
    for (const auto& run : experiment->plan({}).runs) {
      auto config = run.config;
      EXPECT_NO_THROW(config.resolve()) << run.series;
      EXPECT_EQ(config.epochs, 200);
    }
  }
}

TEST(WeightDecay, ChangesAdaActsAlone) {
  const auto found = nothing_found(weight_decay());
  EXPECT_EQ(options_of(run_of("AdaAct, λ = 0.0001", found)).at("weight_decay"), 1e-4);
  EXPECT_EQ(options_of(run_of("AdaAct, λ = 0.002", found)).at("weight_decay"), 2e-3);
  EXPECT_EQ(run_of("Adam", found).planned.config.optimizer, "adam");
}

Found decays(double early_of_low, double final_of_low) {
  auto found = nothing_found(weight_decay());
  add_seeds(found, "AdaAct, λ = 0.002", 0.6, 0.925);
  add_seeds(found, "AdaAct, λ = 0.0005", 0.65, 0.92);
  add_seeds(found, "AdaAct, λ = 0.0001", early_of_low, final_of_low);
  add_seeds(found, "SGD", 0.6, 0.925);
  add_seeds(found, "Adam", 0.7, 0.91);
  return found;
}

TEST(WeightDecay, JudgesWhatThePaperSays) {
  for (const auto& finding : weight_decay().findings(decays(0.75, 0.92))) {
    EXPECT_EQ(finding.verdict, Verdict::Agrees) << finding.claim << finding.measured;
  }
  const auto slow = weight_decay().findings(decays(0.65, 0.90));
  EXPECT_EQ(finding_about("converge faster", slow).verdict, Verdict::Agrees);
  EXPECT_EQ(finding_about("as fast as Adam", slow).verdict, Verdict::Disagrees);
  EXPECT_EQ(finding_about("better than Adam", slow).verdict, Verdict::Disagrees);
  auto incomplete = nothing_found(weight_decay());
  add_seeds(incomplete, "Adam", 0.7, 0.91);
  for (const auto& finding : weight_decay().findings(incomplete)) {
    EXPECT_EQ(finding.verdict, Verdict::Open) << finding.claim;
  }
}

TEST(FoofVariants, AreThePapersTextAndTheAuthorsCode) {
  const auto found = nothing_found(foof_variants());
  EXPECT_EQ(options_of(run_of("the paper's text", found)).at("scale"), "paper");
  EXPECT_EQ(options_of(run_of("the authors' code", found)).at("scale"), "authors");
}

TEST(FoofVariants, JudgesWhichIsNearerToThePapersNumber) {
  const auto verdict = [](double text, double code) {
    auto found = nothing_found(foof_variants());
    add_seeds(found, "the paper's text", 0.5, text);
    add_seeds(found, "the authors' code", 0.5, code);
    return foof_variants().findings(found).front();
  };
  EXPECT_EQ(verdict(0.93, 0.918).verdict, Verdict::Agrees);
  EXPECT_EQ(verdict(0.918, 0.93).verdict, Verdict::Disagrees);
  EXPECT_EQ(verdict(0.905, 0.93).verdict, Verdict::Open) << "as far below as the other is above";
  EXPECT_TRUE(contains(verdict(0.93, 0.918).measured, "The text 93.00 %, the code 91.80 %."));
}

TEST(FullCovarianceCost, TriesEveryDampingAtEveryPeriod) {
  const auto found = nothing_found(full_covariance_cost());
  EXPECT_EQ(found.runs.size(), 10U);
  const auto options = options_of(run_of("δ = 0.01, T = 250", found));
  EXPECT_EQ(options.at("covariance"), "full");
  EXPECT_EQ(options.at("damping"), 0.01);
  EXPECT_EQ(options.at("refresh_period"), 250);
}

TEST(FullCovarianceCost, SaysWhatAPointOfAccuracyCosts) {
  auto found = nothing_found(full_covariance_cost());
  const auto timed = [](double top1, double seconds) {
    auto history = history_with({top1});
    history.epochs.back().seconds = seconds;
    return history;
  };
  add_run(found, "the diagonal", timed(0.92, 100.0));
  add_run(found, "δ = 0.01, T = 50", timed(0.925, 400.0));
  add_run(found, "δ = 0.1, T = 50", timed(0.91, 400.0));
  const auto series = full_covariance_cost().to_json(found).at("series");
  for (const auto& each : series) {
    if (each.at("name") != "δ = 0.01, T = 50") continue;
    EXPECT_NEAR(each.at("gain"), 0.005, 1e-12);
    EXPECT_DOUBLE_EQ(each.at("time_to_the_first"), 4.0);
  }
  const auto page = drawn(full_covariance_cost(), found);
  EXPECT_TRUE(contains(page,
                       "0.50 points</td><td class=\"number\">4.00</td>"
                       "<td class=\"number\">600.00 %</td>"))
      << "three times as much more, for half a point";
  EXPECT_TRUE(contains(page,
                       "-1.00 points</td><td class=\"number\">4.00</td>"
                       "<td class=\"number\">–</td>"))
      << "nothing was gained";
  EXPECT_TRUE(full_covariance_cost().findings(found).empty());
}

}  // namespace
