#include "sweep/halving.h"

#include <gtest/gtest.h>

namespace {

using adaact::halve;
using adaact::halving_rungs;
using adaact::Standing;
using Epochs = std::vector<std::int64_t>;

TEST(Halving, RungsAreTheLastPowersOfThreeThatAreNeeded) {
  EXPECT_EQ(halving_rungs(3, 3), (Epochs{1}));
  EXPECT_EQ(halving_rungs(9, 9), (Epochs{1, 3}));
  EXPECT_EQ(halving_rungs(10, 27), (Epochs{1, 3}));  // more would not leave three times as long
  EXPECT_EQ(halving_rungs(200, 3), (Epochs{27}));
  EXPECT_EQ(halving_rungs(200, 5), (Epochs{9, 27}));  // five, two, one
  EXPECT_EQ(halving_rungs(2, 9), (Epochs{}));
  EXPECT_EQ(halving_rungs(9, 1), (Epochs{}));
}

TEST(Halving, WaitsUntilAllHaveComeToTheRung) {
  const auto decided = halve({{{0.9}}, {{}}, {{0.5}}}, {1}, 3);
  EXPECT_EQ(decided.epochs, (Epochs{1, 1, 1}));
  EXPECT_EQ(decided.still_in, (std::vector<bool>{true, true, true}));
}

TEST(Halving, TheBestThirdGoesOn) {
  const auto first = halve({{{0.2}}, {{0.9}}, {{0.5}}, {{0.7}}}, {1, 3}, 9);
  EXPECT_EQ(first.epochs, (Epochs{1, 3, 1, 3}));
  EXPECT_EQ(first.still_in, (std::vector<bool>{false, true, false, true}));
  // What counts is the accuracy at the rung, not before and not after it.
  const auto second =
      halve({{{0.2}}, {{0.9, 0.9, 0.6}}, {{0.5}}, {{0.7, 0.7, 0.8, 0.1}}}, {1, 3}, 9);
  EXPECT_EQ(second.epochs, (Epochs{1, 3, 1, 9}));
  EXPECT_EQ(second.still_in, (std::vector<bool>{false, false, false, true}));
}

TEST(Halving, TheFirstOfEqualsGoesOn) {
  EXPECT_EQ(halve({{{0.5}}, {{0.5}}, {{0.5}}}, {1}, 3).epochs, (Epochs{3, 1, 1}));
}

TEST(Halving, WhatIsLostIsNotWaitedForAndIsTheWorst) {
  const auto decided = halve({{{0.9}, true}, {{}, true}, {{0.1}}}, {1}, 3);
  EXPECT_EQ(decided.epochs, (Epochs{1, 1, 3}));
  EXPECT_EQ(decided.still_in, (std::vector<bool>{false, false, true}));
  // Also where there are places for all.
  const auto lost_later = halve({{{0.9, 0.9}, true}}, {}, 3);
  EXPECT_EQ(lost_later.still_in, (std::vector<bool>{false}));
}

TEST(Halving, WithoutRungsAllGoToTheEnd) {
  EXPECT_EQ(halve({{{0.2}}, {{}}, {{0.5}}}, {}, 3).epochs, (Epochs{3, 3, 3}));
}

}  // namespace
