// What the other ranks of an MPI program do when one does not do what it should. Real processes, which mpirun starts.

#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/process.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using Clock = std::chrono::steady_clock;

class MpiFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (mpirun_.front().empty()) GTEST_SKIP() << "without MPI or without mpirun";
  }

  /// The command that starts three ranks with a fault in one.
  std::vector<std::string> command(const std::string& fault, const std::string& timeout) const {
    auto words = mpirun_;
    words.insert(words.end(), {"3", ADAACT_MPI_FAULTS, fault, timeout});
    return words;
  }

  struct Ended {
    int code;
    double seconds;
    std::string printed;
  };
  Ended run(const std::string& fault, const std::string& timeout) const {
    const auto start = Clock::now();
    Process process(command(fault, timeout), folder_.path() / "printed");
    const int code = process.wait();
    const std::chrono::duration<double> seconds = Clock::now() - start;
    return {code, seconds.count(), process.printed()};
  }

  const std::vector<std::string> mpirun_{ADAACT_MPIRUN};
  const TemporaryFolder folder_;
};

/// How often a rank was told something with this in it.
int times_told(const std::string& printed, const std::string& what) {
  std::istringstream lines(printed);
  int times = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("told: ", 0) == 0 && line.find(what) != std::string::npos) ++times;
  }
  return times;
}

/// "rank 2 (host)": the last of three.
bool names_the_last_alone(const std::string& printed) {
  return times_told(printed, "rank 2 (") > 0 && times_told(printed, "rank 1 (") == 0;
}

TEST_F(MpiFaults, ARankThatIsLateIsNamedOnAllOthers) {
  const auto ended = run("is_late", "1");
  EXPECT_NE(ended.code, 0);
  EXPECT_LT(ended.seconds, 20);
  EXPECT_GE(times_told(ended.printed, "did not come within 1 s to a sum of 400 bytes, call 2:"), 2)
      << ended.printed;
  EXPECT_TRUE(names_the_last_alone(ended.printed)) << ended.printed;
  EXPECT_EQ(times_told(ended.printed, "and then"), 0) << ended.printed;
}

TEST_F(MpiFaults, ARankThatIsStoppedIsNamedAndEnded) {
  const auto ended = run("is_stopped", "1");
  EXPECT_NE(ended.code, 0);
  EXPECT_LT(ended.seconds, 20);
  EXPECT_GE(times_told(ended.printed,
                       "did not answer for 1 s, and others wait in a sum of 400 bytes, call 2"),
            2)
      << ended.printed;
  EXPECT_TRUE(names_the_last_alone(ended.printed)) << ended.printed;
}

TEST_F(MpiFaults, ARankThatIsKilledEndsAll) {
  const auto ended = run("is_killed", "30");
  EXPECT_NE(ended.code, 0);
  EXPECT_LT(ended.seconds, 20);
}

TEST_F(MpiFaults, ARankThatThrowsTellsTheOthersAtOnce) {
  const auto ended = run("throws", "30");
  EXPECT_NE(ended.code, 0);
  EXPECT_LT(ended.seconds, 20);
  EXPECT_EQ(times_told(ended.printed, "out of luck"), 1) << ended.printed;
  EXPECT_EQ(times_told(ended.printed, "has given up"), 2) << ended.printed;
  EXPECT_TRUE(names_the_last_alone(ended.printed)) << ended.printed;
}

TEST_F(MpiFaults, ARankThatHasNoMemoryForASumIsNamedWithTheReason) {
  const auto ended = run("has_no_memory", "30");
  EXPECT_NE(ended.code, 0);
  EXPECT_LT(ended.seconds, 20);
  EXPECT_EQ(times_told(ended.printed, "): std::bad_alloc"), 3) << ended.printed;
  EXPECT_TRUE(names_the_last_alone(ended.printed)) << ended.printed;
}

TEST_F(MpiFaults, ARankThatEndsBeforeTheOthersIsNamed) {
  const auto ended = run("ends_early", "1");
  EXPECT_NE(ended.code, 0);
  EXPECT_LT(ended.seconds, 20);
  EXPECT_EQ(times_told(ended.printed, "came to an end before the others"), 2) << ended.printed;
  EXPECT_TRUE(names_the_last_alone(ended.printed)) << ended.printed;
}

TEST_F(MpiFaults, ARankThatAbortsEndsAllWithItsCode) {
  const auto ended = run("aborts", "30");
  EXPECT_EQ(ended.code, 7);
  EXPECT_LT(ended.seconds, 20);
}

TEST_F(MpiFaults, RanksThatDoNotFitTogetherAreToldApart) {
  const std::vector<std::pair<std::string, std::string>> faults{
      {"has_more_numbers", "one has 800 bytes where another has 400"},
      {"has_other_numbers", "their dtypes or sizes differ"},
      {"calls_something_else", "same calls in the same order"}};
  std::vector<std::unique_ptr<Process>>
      programs;  // at the same time, since they do nothing but start and end
  for (const auto& [fault, told] : faults) {
    programs.push_back(std::make_unique<Process>(command(fault, "30"), folder_.path() / fault));
  }
  for (std::size_t i = 0; i < faults.size(); ++i) {
    EXPECT_NE(programs[i]->wait(), 0);
    const auto printed = programs[i]->printed();
    EXPECT_GE(times_told(printed, faults[i].second), 2) << printed;
    EXPECT_EQ(times_told(printed, faults[i].second), times_told(printed, "")) << printed;
  }
}

TEST_F(MpiFaults, ARankThatHasMoreToDoAtTheEndIsWaitedFor) {
  const auto ended = run("comes_late_to_its_end", "1");
  EXPECT_EQ(ended.code, 0) << ended.printed;
}

TEST_F(MpiFaults, AJobThatIsSuspendedGoesOn) {
  Process process(command("is_suspended_with_all_others", "1"), folder_.path() / "printed");
  std::vector<int> pids;
  ASSERT_TRUE(wait_until(process, [&] {
    pids.clear();
    std::istringstream lines(process.printed());
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("pid ", 0) == 0) pids.push_back(std::stoi(line.substr(4)));
    }
    return pids.size() == 3;
  })) << process.printed();
  for (const int pid : pids) ::kill(pid, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  for (const int pid : pids) ::kill(pid, SIGCONT);
  EXPECT_EQ(process.wait(), 0) << process.printed();
}

}  // namespace
