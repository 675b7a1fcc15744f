#include "kernels/bf16_on_cpu.h"

#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace {

using adaact::limit_onednn_if_it_dies;

/// The variables that limit oneDNN, unset for a test and put back after it.
class Bf16OnCpu : public ::testing::Test {
 protected:
  Bf16OnCpu() {
    for (const auto* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
      const auto* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? "" : value);
      unsetenv(name);
    }
  }
  ~Bf16OnCpu() override {
    for (const auto& [name, value] : before_) {
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    }
  }
  static std::string limit() {
    const auto* value = std::getenv("ONEDNN_MAX_CPU_ISA");
    return value == nullptr ? "" : value;
  }

 private:
  std::vector<std::pair<std::string, std::string>> before_;
};

void die() { std::raise(SIGILL); }

TEST_F(Bf16OnCpu, AProbeThatDiesLimitsOneDnnAndSaysSo) {
  const auto note = limit_onednn_if_it_dies(die);
  EXPECT_NE(note.find("ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"), std::string::npos) << note;
  EXPECT_EQ(limit(), "AVX512_CORE_BF16");
  EXPECT_STREQ(std::getenv("DNNL_MAX_CPU_ISA"), "AVX512_CORE_BF16");
}

TEST_F(Bf16OnCpu, AProbeThatLivesChangesNothing) {
  EXPECT_EQ(limit_onednn_if_it_dies([] {}), "");
  EXPECT_EQ(limit(), "");
}

TEST_F(Bf16OnCpu, WhatTheUserHasSetStays) {
  setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  EXPECT_EQ(limit_onednn_if_it_dies(die), "");
  EXPECT_EQ(limit(), "AVX2");
}

}  // namespace
