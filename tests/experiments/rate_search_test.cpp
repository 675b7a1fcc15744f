// Experiments that search every optimizer's learning rate.

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/made_up_cifar.h"
#include "experiments/paper/catalog.h"
#include "support/errors.h"
#include "support/made_up_found.h"

namespace {

using adaact::equal_effort;
using adaact::ExperimentForm;
using adaact::Found;
using adaact::lenet_rates;
using adaact::RunHistory;
using adaact::testing::contains;
using adaact::testing::drawn;
using adaact::testing::ended_after;
using adaact::testing::finding_about;
using adaact::testing::history_with;
using adaact::testing::nothing_found;
using adaact::testing::set_history;
using Verdict = adaact::Finding::Verdict;

TEST(EqualEffort, GivesEveryOptimizerTheSameNumberOfRates) {
  std::map<std::string, std::map<std::string, int>> seeds;  // by task and optimizer, then series
  for (const auto& run : equal_effort().plan({}).runs) {
    auto config = run.config;
    EXPECT_NO_THROW(config.resolve()) << run.series;
    EXPECT_EQ(config.epochs, 60);
    ++seeds[config.dataset + " " + config.optimizer][run.series];
  }
  EXPECT_EQ(seeds.size(), 2U * 9U);
  for (const auto& [optimizer, rates] : seeds) {
    EXPECT_EQ(rates.size(), 5U) << optimizer;
    for (const auto& [series, count] : rates) EXPECT_EQ(count, 3) << series;
  }
}

TEST(EqualEffort, OneDataSetInThePlaceOfTwoIsOneTask) {
  ExperimentForm form;
  form.dataset = "fashion-mnist";
  EXPECT_EQ(equal_effort().plan(form).runs.size(), 9U * 5U * 3U);
  form.quick = true;
  EXPECT_EQ(equal_effort().plan(form).runs.size(), 9U * 5U) << "and one seed";
}

/// Final accuracies of three seeds, which hardly differ, by series; the first epoch has half.
Found found_with(const std::map<std::string, double>& top1_of_series) {
  auto found = nothing_found(lenet_rates());
  for (auto& run : found.runs) {
    const auto top1 = top1_of_series.find(run.planned.series);
    if (top1 == top1_of_series.end()) continue;
    const double change = 0.001 * static_cast<double>(run.planned.config.seed);
    auto history = history_with({(top1->second + change) / 2.0, top1->second + change});
    history.config = run.planned.config;
    run.history = std::move(history);
  }
  return found;
}

TEST(RateSearch, TakesTheBestRateOfEach) {
  auto found = found_with({{"AdaAct, η = 0.1", 0.70},
                           {"AdaAct, η = 0.3", 0.72},
                           {"AdaAct, η = 1", 0.71},
                           {"SGD, η = 0.01", 0.69},
                           {"SGD, η = 0.03", 0.68}});
  const auto optimizers = lenet_rates().to_json(found).at("optimizers");
  ASSERT_EQ(optimizers.size(), 3U);
  EXPECT_EQ(optimizers[0].at("optimizer"), "adaact");
  EXPECT_EQ(optimizers[0].at("best_lr"), 0.3);
  EXPECT_FALSE(optimizers[0].at("is_at_edge"));
  EXPECT_NEAR(optimizers[0].at("final_test_top1"), 0.721, 1e-12);
  EXPECT_EQ(optimizers[0].at("rates").size(), 3U) << "those that have runs";
  EXPECT_EQ(optimizers[1].at("best_lr"), 0.01);
  EXPECT_TRUE(optimizers[1].at("is_at_edge")) << "nothing lower was tried";
  EXPECT_TRUE(optimizers[2].at("best_lr").is_null());
  const auto page = drawn(lenet_rates(), found);
  EXPECT_TRUE(contains(page, "AdaAct, η = 0.3"));
  EXPECT_TRUE(contains(page, "0.01, at the edge"));
  EXPECT_TRUE(contains(page, "0.1: 70.10 %; 0.3: 72.10 %; 1: 71.10 %"));
}

TEST(RateSearch, ARateAtWhichRunsDivergedIsNotTheBest) {
  auto found = found_with({{"SGD, η = 0.1", 0.69}, {"SGD, η = 0.3", 0.70}});
  for (auto& run : found.runs) {
    if (run.planned.series != "SGD, η = 0.3") continue;
    auto history = ended_after({});
    history.config = run.planned.config;
    run.history = std::move(history);
  }
  EXPECT_EQ(lenet_rates().to_json(found).at("optimizers").at(1).at("best_lr"), 0.1);
  EXPECT_TRUE(contains(drawn(lenet_rates(), found), "0.3: 10.00 % (diverged in epoch 1, 1, 1)"));
}

TEST(LenetRates, JudgesAtTheBestRateOfEachWhenAllAreThere) {
  std::map<std::string, double> accuracies;
  for (const auto& run : lenet_rates().plan({}).runs) accuracies[run.series] = 0.5;
  accuracies["AdaAct, η = 0.1"] = 0.75;
  accuracies["SGD, η = 0.03"] = 0.70;
  accuracies["Adam, η = 0.001"] = 0.72;
  const auto findings = lenet_rates().findings(found_with(accuracies));
  const auto& higher = finding_about("higher test accuracy", findings);
  EXPECT_EQ(higher.verdict, Verdict::Agrees) << higher.measured;
  EXPECT_TRUE(contains(higher.measured, "AdaAct, η = 0.1 75.10 %, SGD, η = 0.03 70.10 %"));
  EXPECT_EQ(finding_about("fastest of the three", findings).verdict, Verdict::Disagrees);
  accuracies.erase("Adam, η = 0.01");
  for (const auto& finding : lenet_rates().findings(found_with(accuracies))) {
    EXPECT_EQ(finding.verdict, Verdict::Open) << "a rate is missing";
  }
}

}  // namespace
