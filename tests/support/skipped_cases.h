#pragma once

#include <cstdio>

#include <gtest/gtest.h>

namespace adaact::testing {

/// Where this is printed CTest shows the program as skipped (ADAACT_SKIPPED in tests/CMakeLists.txt), whatever its exit
/// status: so it is printed only where nothing has failed.
inline void tell_of_skipped_cases(bool all_passed) {
  const int skipped = ::testing::UnitTest::GetInstance()->skipped_test_count();
  if (all_passed && skipped > 0) std::printf("nothing failed, %d skipped\n", skipped);
}

}  // namespace adaact::testing
