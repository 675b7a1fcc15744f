// What OpenMP is told before it reads its settings. Its own list of them shows what it has read.

#include <string>

#include <gtest/gtest.h>

#include "tool.h"

namespace adaact {
namespace {

using adaact::testing::ToolFolder;
using adaact::testing::Words;

class OpenMPWaitingTest : public ::testing::Test {
 protected:
  /// GOMP_SPINCOUNT of the tool as OpenMP prints it, in an environment with these variables.
  std::string spins(const Words& variables, const Words& arguments) const {
    Words command{
        "env", "-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT", "OMP_DISPLAY_ENV=VERBOSE"};
    command.insert(command.end(), variables.begin(), variables.end());
    for (const auto& word : testing::tool_command(arguments)) command.push_back(word);
    const auto [code, printed] = folder_.run_command(command);
    EXPECT_EQ(code, 0) << printed;
    const std::string name = "GOMP_SPINCOUNT = '";
    const auto begin = printed.find(name);
    if (begin == std::string::npos) return "";
    const auto digits = begin + name.size();
    return printed.substr(digits, printed.find('\'', digits) - digits);
  }

  void SetUp() override {
    if (spins({}, {"--version"}).empty()) GTEST_SKIP() << "LibTorch's OpenMP is not GNU's";
  }

  const ToolFolder folder_;
};

TEST_F(OpenMPWaitingTest, CommandsThatTrainSpinForAShortTime) {
  for (const auto* command : {"train", "sweep", "find-lr", "reproduce", "bench"}) {
    EXPECT_EQ(spins({}, {command, "--help"}), "10000") << command;
  }
}

TEST_F(OpenMPWaitingTest, OtherCommandsStartOnce) {
  EXPECT_EQ(spins({}, {"help"}), spins({}, {"--version"}));
  EXPECT_NE(spins({}, {"help"}), "10000");
}

TEST_F(OpenMPWaitingTest, AUsersOwnSettingCountsMore) {
  EXPECT_EQ(spins({"GOMP_SPINCOUNT=77"}, {"train", "--help"}), "77");
  EXPECT_EQ(spins({"OMP_WAIT_POLICY=passive"}, {"train", "--help"}), "0");
}

}  // namespace
}  // namespace adaact
