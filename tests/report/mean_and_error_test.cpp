#include "report/mean_and_error.h"

#include <cmath>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

namespace {

using adaact::mean_and_error;

TEST(MeanAndErrorTest, OfKnownValues) {
  const auto result = mean_and_error({1.0, 2.0, 3.0, 6.0});
  EXPECT_DOUBLE_EQ(result.mean, 3.0);
  EXPECT_DOUBLE_EQ(result.standard_error, std::sqrt(14.0 / 3.0 / 4.0));
}

TEST(MeanAndErrorTest, OneMeasurementHasNoError) {
  const auto result = mean_and_error({0.5});
  EXPECT_DOUBLE_EQ(result.mean, 0.5);
  EXPECT_TRUE(std::isnan(result.standard_error));
}

TEST(MeanAndErrorTest, NoneIsAnError) { EXPECT_THROW(mean_and_error({}), c10::Error); }

}  // namespace
