#include <gtest/gtest.h>

#include "kernels/bf16_on_cpu.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  adaact::make_bf16_products_safe();  // as the tool does
  return RUN_ALL_TESTS();
}
