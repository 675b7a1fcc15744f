// A program one of whose cases is skipped, one of which fails and one of which passes.

#include <gtest/gtest.h>

namespace {

TEST(Case, IsSkipped) { GTEST_SKIP() << "for a reason"; }
TEST(Case, Fails) { FAIL() << "on purpose"; }
TEST(Case, Passes) { EXPECT_EQ(::testing::UnitTest::GetInstance()->total_test_count(), 3); }

}  // namespace
