#include "experiments/page/curves.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "experiments/paper/catalog.h"
#include "support/errors.h"
#include "support/made_up_found.h"

namespace {

using adaact::accuracy_list;
using adaact::accuracy_plot;
using adaact::early_top1;
using adaact::final_top1;
using adaact::Found;
using adaact::ImageSet;
using adaact::series_named;
using adaact::series_of;
using adaact::state_of;
using adaact::testing::add_run;
using adaact::testing::contains;
using adaact::testing::diverged_in;
using adaact::testing::ended_after;
using adaact::testing::error_of;
using adaact::testing::history_with;
using adaact::testing::kNaN;
using adaact::testing::nothing_found;
using Verdict = adaact::Finding::Verdict;

Found two_seeds() {
  adaact::ExperimentForm form;
  form.seeds = {1, 2};
  return nothing_found(adaact::fig_activation_variance(), form);
}

TEST(RunSeries, HoldsTheSeedsThatAreThere) {
  auto found = two_seeds();
  add_run(found, "SGD", history_with({0.2, 0.6}));
  const auto all = series_of(found);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "AdaAct");
  EXPECT_TRUE(all[0].runs.empty());
  EXPECT_EQ(all[1].runs.size(), 1U);
  EXPECT_EQ(all[1].style, 1U);
  EXPECT_EQ(&series_named("SGD", all), &all[1]);
  EXPECT_TRUE(contains(error_of([&] { series_named("LAMB", all); }), "no runs called 'LAMB'"));
}

TEST(RunSeries, AveragesItsSeeds) {
  auto found = two_seeds();
  add_run(found, "SGD", history_with({0.2, 0.6}));
  add_run(found, "SGD", history_with({0.4, 0.7}));
  const auto all = series_of(found);
  EXPECT_DOUBLE_EQ(final_top1(all[1]), 0.65);
  EXPECT_DOUBLE_EQ(early_top1(all[1]), 0.3) << "the first of two epochs";
  EXPECT_TRUE(std::isnan(final_top1(all[0])));
  const auto curve = accuracy_plot(all, ImageSet::Test).series[1];
  ASSERT_EQ(curve.points.size(), 2U);
  EXPECT_DOUBLE_EQ(curve.points[1].x, 2.0);
  EXPECT_DOUBLE_EQ(curve.points[1].y, 65.0);
  EXPECT_DOUBLE_EQ(accuracy_plot(all, ImageSet::Train).series[1].points[1].y, 67.0);
  const auto table = adaact::to_markup(adaact::accuracy_table(all)).html;
  EXPECT_TRUE(contains(table, "65.00 % ± 5.00 %"));
}

TEST(RunSeries, SaysWhatHappenedToIt) {
  auto found = two_seeds();
  add_run(found, "SGD", diverged_in(2, {0.2, 0.1}));
  add_run(found, "Adam", history_with({0.2, 0.5}));
  const auto all = series_of(found);
  EXPECT_EQ(state_of(all[0]), "not carried out yet");
  EXPECT_EQ(state_of(all[1]), "diverged in epoch 2");
  EXPECT_EQ(state_of(all[2]), "");
  EXPECT_EQ(accuracy_list(all, final_top1),
            "AdaAct – (not carried out yet), SGD 10.00 % (diverged in epoch 2), Adam 50.00 %");
}

TEST(RunSeries, CountsARunThatDivergenceEndedAsGuessing) {
  auto found = two_seeds();
  add_run(found, "AdaAct", ended_after({}));
  add_run(found, "SGD", ended_after({0.5}));
  add_run(found, "SGD", history_with({0.2, 0.6}));
  auto on_cifar100 = ended_after({});
  on_cifar100.config.dataset = "cifar100";
  add_run(found, "Adam", on_cifar100);
  const auto all = series_of(found);
  EXPECT_EQ(state_of(all[0]), "diverged in epoch 1");
  EXPECT_DOUBLE_EQ(final_top1(all[0]), 0.1);
  EXPECT_DOUBLE_EQ(adaact::best_top1(all[0]), 0.1);
  EXPECT_EQ(state_of(all[1]), "diverged in epoch 2");
  EXPECT_DOUBLE_EQ(final_top1(all[1]), 0.35);
  EXPECT_DOUBLE_EQ(adaact::best_top1(all[1]), 0.55) << "what it had before";
  EXPECT_DOUBLE_EQ(early_top1(all[1]), 0.25) << "two epochs of 20, and one of two";
  EXPECT_DOUBLE_EQ(final_top1(all[2]), 0.01);
  const auto curves = accuracy_plot(all, ImageSet::Test).series;
  ASSERT_EQ(curves[0].points.size(), 20U) << "the epochs of its plan";
  EXPECT_DOUBLE_EQ(curves[0].points.back().y, 10.0);
  ASSERT_EQ(curves[1].points.size(), 2U) << "those that both have";
  EXPECT_DOUBLE_EQ(curves[1].points[1].y, 35.0) << "as in the table";
  EXPECT_TRUE(accuracy_plot(all, ImageSet::Train).series[0].points.empty());
}

TEST(RunSeries, AsJsonTellsOfDivergence) {
  auto found = two_seeds();
  auto second_seed = ended_after({0.5});
  second_seed.config.seed = 2;
  add_run(found, "SGD", history_with({0.2, 0.6}));
  add_run(found, "SGD", second_seed);
  const auto all = series_of(found);
  EXPECT_EQ(adaact::accuracy_json(all[1]).at("diverged").dump(), R"([{"seed":2,"epoch":2}])");
  EXPECT_TRUE(adaact::accuracy_json(all[0]).at("diverged").empty());
}

TEST(RunSeries, TakesTheSecondsOfTheFastestRun) {
  std::vector<adaact::RunHistory> histories(3, history_with({0.2, 0.6}));
  histories[0].epochs[1].seconds = 11.0;
  histories[1].epochs[1].seconds = 10.0;
  histories[2].epochs[1].seconds = 60.0;  // it shared its machine
  auto ended = ended_after({0.3});
  ended.epochs[0].seconds = 1.0;
  const std::vector<const adaact::RunHistory*> runs{&histories[0], &histories[1], &histories[2],
                                                    &ended};
  EXPECT_EQ(adaact::fastest_of(runs), &histories[1]);
  EXPECT_EQ(adaact::fastest_seconds(runs), (std::vector<double>{0.0, 10.0}));
  EXPECT_EQ(adaact::fastest_of({&ended}), nullptr) << "it would have taken longer";
  EXPECT_TRUE(adaact::fastest_seconds({}).empty());
}

TEST(RunSeries, ItsCurveGoesAsFarAsAllRunsCame) {
  const auto whole = history_with({0.5, 0.6, 0.7});
  const auto shorter = history_with({0.3});
  const auto means = adaact::mean_test_accuracies({&whole, &shorter});
  ASSERT_EQ(means.size(), 1U) << "the others alone would leap up";
  EXPECT_DOUBLE_EQ(means[0].mean, 0.4);
  EXPECT_DOUBLE_EQ(means[0].standard_error, 0.1);
}

TEST(RunSeries, HasABandWhereThereAreSeveralRuns) {
  auto found = two_seeds();
  add_run(found, "AdaAct", history_with({0.5}));
  add_run(found, "SGD", history_with({0.4}));
  add_run(found, "SGD", history_with({0.6}));
  const auto all = series_of(found);
  EXPECT_FALSE(accuracy_plot(all, ImageSet::Test).series[0].has_band());
  EXPECT_DOUBLE_EQ(accuracy_plot(all, ImageSet::Test).series[1].points[0].error, 10.0);
  EXPECT_DOUBLE_EQ(adaact::accuracy_by_seconds_plot(all).series[1].points[0].error, 10.0);
}

TEST(RunSeries, ASeedThatWasTrainedTwiceIsOneSeedAndTwoRuns) {
  auto found = two_seeds();
  add_run(found, "SGD", history_with({0.4}));
  add_run(found, "SGD", history_with({0.6}));
  for (auto& run : found.runs) {
    if (run.history) run.history->config.seed = 1;
  }
  const auto all = series_of(found);
  const auto& series = all[1];
  EXPECT_EQ(adaact::count_text(series.runs), "2 runs of 1 seed");
  const auto over_seeds = adaact::final_over_seeds(series);
  EXPECT_EQ(over_seeds.seeds, 1U) << "how far seeds differ is not known";
  EXPECT_DOUBLE_EQ(over_seeds.mean, 0.5);
  EXPECT_DOUBLE_EQ(over_seeds.standard_error, 0.1);
}

TEST(RunSeries, BeginsWithATenthOfItsEpochs) {
  auto found = two_seeds();
  std::vector<double> top1(29, 0.9);
  top1[0] = 0.2;
  top1[1] = 0.4;
  add_run(found, "SGD", history_with(top1));
  EXPECT_DOUBLE_EQ(early_top1(series_of(found)[1]), 0.3);
}

adaact::OverSeeds over_seeds(const std::vector<double>& values) {
  if (values.empty()) return {kNaN, kNaN, 0, 0};
  const auto [mean, error] = adaact::mean_and_error(values);
  return {mean, error, values.size(), values.size()};
}

adaact::Judgement judgement_on(const std::vector<double>& higher,
                               const std::vector<double>& lower) {
  return adaact::judge({{"one and other", over_seeds(higher) - over_seeds(lower)}});
}

TEST(Judgement, NeedsThreeSeedsOnBothSides) {
  const auto single = judgement_on({0.92}, {0.60});
  EXPECT_EQ(single.verdict, Verdict::Open);
  EXPECT_EQ(single.reason, " One seed each: no verdict.");
  const auto two = judgement_on({0.92, 0.92, 0.93}, {0.60, 0.61});
  EXPECT_EQ(two.verdict, Verdict::Open);
  EXPECT_EQ(two.reason, " Fewer than three seeds on a side: no verdict.");
  EXPECT_EQ(judgement_on({0.92, 0.92, 0.93}, {0.6}).reason, two.reason) << "not one each";
  EXPECT_EQ(judgement_on({}, {0.9, 0.9, 0.9}).verdict, Verdict::Open);
}

TEST(Judgement, NeedsTwiceTheStandardErrorOfTheDifference) {
  const std::vector<double> low{0.91, 0.92, 0.93};  // a standard error of 0.00577
  EXPECT_EQ(judgement_on({0.930, 0.940, 0.950}, low).verdict, Verdict::Agrees);
  EXPECT_EQ(judgement_on(low, {0.930, 0.940, 0.950}).verdict, Verdict::Disagrees);
  const auto close = judgement_on({0.925, 0.935, 0.945}, low);
  EXPECT_EQ(close.verdict, Verdict::Open);
  EXPECT_TRUE(
      contains(close.reason, "one and other (1.50 points, twice the error is 1.63 points)"));
  EXPECT_EQ(judgement_on({0.921, 0.921, 0.921}, {0.920, 0.920, 0.920}).verdict, Verdict::Agrees)
      << "a small difference counts where seeds hardly differ";
  EXPECT_EQ(judgement_on({kNaN, 0.9, 0.9}, low).verdict, Verdict::Open);
}

TEST(Judgement, OfSeveralLeadsIsTheWeakest) {
  const auto lead = [](double mean) { return adaact::Lead{"a lead", {mean, 0.01, 3, 3}}; };
  EXPECT_EQ(adaact::judge({lead(0.1), lead(0.2)}).verdict, Verdict::Agrees);
  EXPECT_EQ(adaact::judge({lead(0.1), lead(0.01)}).verdict, Verdict::Open);
  EXPECT_EQ(adaact::judge({lead(0.01), lead(-0.1)}).verdict, Verdict::Disagrees);
}

/// The verdict on runs of these seeds where three were planned.
adaact::Finding judged_with(const std::vector<std::uint64_t>& seeds) {
  adaact::ExperimentForm form;
  form.seeds = {0, 1, 2};
  auto found = nothing_found(adaact::fig_activation_variance(), form);
  const auto planned = found.runs;
  for (const auto seed : seeds) {
    for (auto run : planned) {
      if (run.planned.config.seed != 0) continue;
      run.planned.config.seed = seed;
      adaact::testing::set_history(run, history_with({0.5}));
      found.runs.push_back(run);
    }
  }
  return adaact::open_until_complete(found, {{"a claim", "a number", Verdict::Agrees}}).front();
}

TEST(Judgement, TakesOtherSeedsThanThosePlanned) {
  EXPECT_EQ(judged_with({11, 12, 13}).verdict, Verdict::Agrees);
  const auto open = judged_with({11, 12});
  EXPECT_EQ(open.verdict, Verdict::Open);
  EXPECT_TRUE(contains(open.measured, "Not all of its runs have been carried out yet. So far: a"));
  EXPECT_EQ(judged_with({11, 12, 12}).verdict, Verdict::Open) << "a repeated seed is no other";
}

TEST(Judgement, AveragesHaveTheErrorOfAMean) {
  const auto average = adaact::average({{0.2, 0.03, 5, 5}, {0.4, 0.04, 3, 3}});
  EXPECT_DOUBLE_EQ(average.mean, 0.3);
  EXPECT_DOUBLE_EQ(average.standard_error, 0.025);
  EXPECT_EQ(average.seeds, 3U);
}

}  // namespace
