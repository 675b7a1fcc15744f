#include "train/run/rand_augment_text.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace {

using adaact::parse_rand_augment;
using adaact::testing::contains;
using adaact::testing::error_of;

TEST(RandAugmentText, SaysMagnitudeItsSpreadAndHowManyOperations) {
  const auto usual = parse_rand_augment("rand-m7-mstd0.5-inc1");
  EXPECT_EQ(usual.magnitude, 7.0);
  EXPECT_EQ(usual.magnitude_std, 0.5);
  EXPECT_EQ(usual.operations, 2);
  EXPECT_EQ(usual.probability, 0.5);
  const auto other = parse_rand_augment("rand-inc1-n3-p.25-m10");
  EXPECT_EQ(other.magnitude, 10.0);
  EXPECT_EQ(other.magnitude_std, 0.0);
  EXPECT_EQ(other.operations, 3);
  EXPECT_EQ(other.probability, 0.25);
}

TEST(RandAugmentText, ErrorsNameThePart) {
  const auto error = [](const std::string& text) {
    EXPECT_THROW(parse_rand_augment(text), c10::ValueError);
    return error_of([&] { parse_rand_augment(text); });
  };
  EXPECT_TRUE(contains(error("augmix-m7-inc1"), "is 'augmix-m7-inc1', expected to begin with"));
  EXPECT_TRUE(contains(error(""), "expected to begin with 'rand'"));
  EXPECT_TRUE(contains(error("rand-m7-w0-inc1"), "whose part 'w0' is not known, expected m, mstd"));
  EXPECT_TRUE(contains(error("rand-m7--inc1"), "whose part '' is not known"));
  EXPECT_TRUE(contains(error("rand-m-inc1"), "whose part 'm' is not m with a number"));
  EXPECT_TRUE(contains(error("rand-m7x-inc1"), "whose part 'm7x' is not m with a number"));
  EXPECT_TRUE(contains(error("rand-m7-m8-inc1"), "has m twice"));
  EXPECT_TRUE(contains(error("rand-mstd0.5-inc1"), "lacks m, the magnitude"));
  EXPECT_TRUE(contains(error("rand-m7"), "lacks inc1"));
  EXPECT_TRUE(contains(error("rand-m7-inc0"), "lacks inc1"));
  EXPECT_TRUE(contains(error("rand-m11-inc1"), "whose m is 11, expected 0 to 10"));
  EXPECT_TRUE(contains(error("rand-m7-p1.5-inc1"), "whose p is 1.5, expected 0 to 1"));
  EXPECT_TRUE(contains(error("rand-m7-n0-inc1"), "whose n is 0, expected 1 to"));
  EXPECT_TRUE(contains(error("rand-m7-n1.5-inc1"), "whose n is 1.5, expected a whole number"));
}

}  // namespace
