#include "experiments/curves.h"

#include <cmath>

#include <gtest/gtest.h>

#include "experiments/catalog.h"
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
using adaact::verdict_on_lead;
using adaact::testing::add_run;
using adaact::testing::contains;
using adaact::testing::diverged_in;
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

TEST(Verdict, IsOpenWhereAccuraciesAreTooClose) {
  EXPECT_EQ(verdict_on_lead(0.92, 0.91), Verdict::Agrees);
  EXPECT_EQ(verdict_on_lead(0.92, 0.918), Verdict::Open);
  EXPECT_EQ(verdict_on_lead(0.918, 0.92), Verdict::Open);
  EXPECT_EQ(verdict_on_lead(0.91, 0.92), Verdict::Disagrees);
  EXPECT_EQ(verdict_on_lead(kNaN, 0.92), Verdict::Open);
}

}  // namespace
