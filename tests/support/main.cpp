#include <gtest/gtest.h>

#include "kernels/bf16_on_cpu.h"
#include "support/skipped_cases.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  adaact::make_bf16_products_safe();  // as the tool does
  const int result = RUN_ALL_TESTS();
  adaact::testing::tell_of_skipped_cases(result == 0);
  return result;
}
