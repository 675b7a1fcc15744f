#include "train/graph/replayed_step.h"

#include <string>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace {

using adaact::ReplayedWork;
using adaact::testing::contains;
using adaact::testing::error_of;

/// What became of a piece of work, a letter each: 'w' done as it stands, 'c' recorded, 'r' replayed.
class Told {
 public:
  adaact::Recorder recorder() {
    return [this](const std::function<void()>& work) -> std::function<void()> {
      recording_ = true;
      work();
      recording_ = false;
      return [this] { story += 'r'; };
    };
  }
  std::function<void()> work() {
    return [this] { story += recording_ ? 'c' : 'w'; };
  }

  std::string story;

 private:
  bool recording_ = false;
};

TEST(ReplayedWork, IsDoneThenRecordedThenReplayed) {
  Told told;
  ReplayedWork replayed(told.recorder());
  for (int i = 0; i < 4; ++i) replayed.run(told.work());
  EXPECT_EQ(told.story, "wcrrr");
}

TEST(ReplayedWork, BeginsAnewInAnotherGeneration) {
  Told told;
  ReplayedWork replayed(told.recorder());
  for (const auto generation : {3, 3, 3, 4, 4, 4, 3}) replayed.run(told.work(), generation);
  EXPECT_EQ(told.story, "wcrrwcrrw");
}

TEST(ReplayedWork, WhatIsNotReadyDoesNotCount) {
  Told told;
  ReplayedWork replayed(told.recorder());
  for (const auto generation : {0, 0, 1, 1, 0, 1, 1}) replayed.run(told.work(), generation);
  EXPECT_EQ(told.story, "wwwcrwwcr");
}

TEST(ReplayedWork, WhatThrowsDoesNotCount) {
  Told told;
  ReplayedWork replayed(told.recorder());
  const auto failure = [] { throw std::runtime_error("no memory"); };
  EXPECT_TRUE(contains(error_of([&] { replayed.run(failure); }), "no memory"));
  replayed.run(told.work());
  EXPECT_TRUE(contains(error_of([&] { replayed.run(failure); }), "no memory"));
  replayed.run(told.work());
  EXPECT_EQ(told.story, "wcr");
}

}  // namespace
