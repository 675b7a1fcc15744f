#include "io/near_miss.h"

#include <gtest/gtest.h>

namespace {

using adaact::did_you_mean;

TEST(NearMiss, NamesTheWordThatWasMeant) {
  const std::vector<std::string> known{"adaact", "adam", "adamw", "sgd"};
  EXPECT_EQ(did_you_mean("adamm", known), "; did you mean 'adam'?");
  EXPECT_EQ(did_you_mean("adaat", known), "; did you mean 'adaact'?");
  EXPECT_EQ(did_you_mean("sdg", known), "; did you mean 'sgd'?");  // neighbours swapped
}

TEST(NearMiss, SaysNothingOfStrangers) {
  EXPECT_EQ(did_you_mean("rmsprop", {"adaact", "adam", "sgd"}), "");
  EXPECT_EQ(did_you_mean("", {"adaact"}), "");
  EXPECT_EQ(did_you_mean("x", {}), "");
  EXPECT_EQ(did_you_mean(std::string(1'000'000, 'a'), {"adaact", std::string(100'000, 'a')}), "");
}

}  // namespace
