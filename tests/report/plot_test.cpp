#include "report/plot.h"

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace {

using adaact::Axis;
using adaact::AxisLayout;
using adaact::drawable_part;
using adaact::lay_out;
using adaact::moving_average;
using adaact::Plot;
using adaact::Point;
using adaact::Scale;
using adaact::smoothed;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string labels(const AxisLayout& layout) {
  std::string all;
  for (const auto& tick : layout.ticks) all += (all.empty() ? "" : " ") + tick.label;
  return all;
}

Axis logarithmic() {
  Axis axis;
  axis.scale = Scale::Logarithmic;
  return axis;
}

TEST(Plot, TicksAreRoundNumbersAroundTheValues) {
  EXPECT_EQ(labels(lay_out({}, {0.13, 0.87})), "0 0.2 0.4 0.6 0.8 1");
  EXPECT_EQ(labels(lay_out({}, {-3.0, 4.0})), "-4 -2 0 2 4");
  EXPECT_EQ(labels(lay_out({}, {1200.0, 5300.0})), "1000 2000 3000 4000 5000 6000");
}

TEST(Plot, TicksCarryTheUnit) {
  Axis axis;
  axis.unit = " %";
  EXPECT_EQ(labels(lay_out(axis, {41.0, 59.0})), "40 % 45 % 50 % 55 % 60 %");
}

TEST(Plot, AnAxisOfWholeNumbersHasNoTicksBetweenThem) {
  Axis axis;
  axis.whole_numbers = true;
  axis.from_zero = true;
  axis.tight = true;
  EXPECT_EQ(labels(lay_out(axis, {0.1, 2.98})), "0 1 2 3");
  EXPECT_EQ(labels(lay_out(axis, {1.0})), "0 1");
  EXPECT_EQ(labels(lay_out(axis, {1.0, 300.0})), "0 100 200 300");
}

TEST(Plot, ATightAxisEndsWhereItsValuesDo) {
  Axis axis;
  axis.tight = true;
  const auto layout = lay_out(axis, {1.0, 54.0});
  EXPECT_EQ(layout.low, 1.0);
  EXPECT_EQ(layout.high, 54.0);
  EXPECT_EQ(labels(layout), "20 40");
}

TEST(Plot, EqualValuesHaveAnAxisToo) {
  for (const double value : {0.0, 1.0, -5.0, 1e-30, 1e30}) {
    for (const bool tight : {false, true}) {
      Axis axis;
      axis.tight = tight;
      const auto layout = lay_out(axis, {value, value});
      EXPECT_LT(layout.low, layout.high) << value;
      EXPECT_FALSE(layout.ticks.empty()) << value;
      EXPECT_LT(layout.ticks.size(), 20U) << value;
    }
    if (value <= 0.0) continue;
    const auto layout = lay_out(logarithmic(), {value, value});
    EXPECT_LT(layout.low, layout.high) << value;
    EXPECT_FALSE(layout.ticks.empty()) << value;
  }
}

TEST(Plot, LogarithmicTicksSuitTheRange) {
  EXPECT_EQ(labels(lay_out(logarithmic(), {0.6, 0.8})), "0.6 0.65 0.7 0.75 0.8");
  EXPECT_EQ(labels(lay_out(logarithmic(), {0.15, 6.0})), "0.2 0.5 1 2 5");
  EXPECT_EQ(labels(lay_out(logarithmic(), {0.01, 900.0})), "0.01 0.1 1 10 100 1000");
  EXPECT_LE(lay_out(logarithmic(), {1e-30, 1e30}).ticks.size(), 12U);
}

TEST(Plot, TicksThatAreGivenAreKept) {
  Axis axis;
  axis.ticks = {{1.0, "conv"}, {2.0, "fc"}};
  const auto layout = lay_out(axis, {1.0, 2.0});
  EXPECT_EQ(labels(layout), "conv fc");
  EXPECT_LT(layout.low, 1.0);
  EXPECT_GT(layout.high, 2.0);
}

TEST(Plot, WhatCannotBeDrawnIsLeftOut) {
  Plot plot{"plot", {}, logarithmic(), {}};
  plot.series.push_back(
      {"some", {{1, kNaN}, {2, 1}, {3, 0}, {4, -1}, {5, INFINITY}, {6, 1e300}, {7, 1e-300}}, 0});
  plot.series.push_back({"none", {{1, kNaN}}, 1});
  const auto part = drawable_part(plot);
  ASSERT_EQ(part.series.size(), 1U);
  EXPECT_EQ(part.series[0].name, "some");
  ASSERT_EQ(part.series[0].points.size(), 1U);
  EXPECT_EQ(part.series[0].points[0].x, 2.0);
}

TEST(Plot, SmoothingAveragesNeighbours) {
  const auto averages = moving_average({{1, 2}, {2, 4}, {3, 0, 3}, {4, 8}, {5, 1}}, 0.6);
  ASSERT_EQ(averages.size(), 5U);
  EXPECT_DOUBLE_EQ(averages[0].y, 2.0) << "it has neighbours on one side only";
  EXPECT_DOUBLE_EQ(averages[1].y, 2.0);
  EXPECT_DOUBLE_EQ(averages[1].error, 1.0);
  EXPECT_DOUBLE_EQ(averages[2].x, 3.0);
  EXPECT_DOUBLE_EQ(averages[2].y, 4.0);
  EXPECT_DOUBLE_EQ(averages[4].y, 1.0);
}

TEST(Plot, SmoothingOverOnePointLeavesOutWhatIsNotFinite) {
  const auto same = moving_average({{1, 2}, {2, kNaN}, {3, 5}}, 0.0);
  ASSERT_EQ(same.size(), 2U);
  EXPECT_DOUBLE_EQ(same[0].y, 2.0);
  EXPECT_DOUBLE_EQ(same[1].x, 3.0);
  EXPECT_TRUE(moving_average({}, 0.5).empty());
}

TEST(Plot, IsSmoothedWhereItAsksForIt) {
  Plot plot{"plot", {}, {}, {{"noisy", {{1, 0}, {2, 3}, {3, 0}}, 0}}, 1.0};
  EXPECT_DOUBLE_EQ(smoothed(plot).series[0].points[1].y, 1.0);
  plot.smoothing = 0.0;
  EXPECT_DOUBLE_EQ(smoothed(plot).series[0].points[1].y, 3.0);
}

}  // namespace
