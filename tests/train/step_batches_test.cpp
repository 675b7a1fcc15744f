#include "train/graph/step_batches.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace {

using adaact::most_batches_under_way;
using adaact::step_batches;

/// How many batches each step of an epoch has.
std::vector<std::int64_t> steps_of_epoch(std::int64_t first, std::int64_t accumulation,
                                         std::int64_t batches) {
  std::vector<std::int64_t> counts;
  for (bool at_end = false; !at_end;) {
    const auto step = step_batches(first, accumulation, batches);
    counts.push_back(step.count);
    first += step.count;
    at_end = step.is_last;
  }
  EXPECT_EQ(first, batches);
  return counts;
}

using Counts = std::vector<std::int64_t>;

TEST(StepBatches, TheLastStepHasWhatIsLeft) {
  EXPECT_EQ(steps_of_epoch(0, 1, 4), (Counts{1, 1, 1, 1}));
  EXPECT_EQ(steps_of_epoch(0, 3, 6), (Counts{3, 3}));
  EXPECT_EQ(steps_of_epoch(0, 3, 7), (Counts{3, 3, 1}));
  EXPECT_EQ(steps_of_epoch(0, 3, 8), (Counts{3, 3, 2}));
  EXPECT_EQ(steps_of_epoch(0, 8, 5), (Counts{5}));
}

TEST(StepBatches, AnEpochMayBeEnteredLater) {
  EXPECT_EQ(steps_of_epoch(3, 3, 8), (Counts{3, 2}));
  EXPECT_EQ(steps_of_epoch(6, 3, 8), (Counts{2}));
  EXPECT_EQ(steps_of_epoch(7, 1, 8), (Counts{1}));
}

TEST(StepBatches, LargeBatchesAreWaitedForSooner) {
  constexpr std::int64_t kOfImageNet = std::int64_t{128} * 3 * 224 * 224 * 4;
  EXPECT_EQ(most_batches_under_way(kOfImageNet), 6);
  EXPECT_EQ(most_batches_under_way(std::int64_t{1} << 40), 1);
  EXPECT_GT(most_batches_under_way(0), 1000);
}

}  // namespace
