// A disk that fills up must cost nothing that was saved.

#include <algorithm>
#include <regex>

#include <gtest/gtest.h>

#include "app/tool.h"
#include "support/errors.h"

namespace {

using adaact::testing::contains;
using adaact::testing::expect_equal_runs;
using adaact::testing::metrics_of;
using adaact::testing::short_training;
using adaact::testing::tool_command;
using adaact::testing::ToolFolder;
using adaact::testing::Words;
namespace fs = std::filesystem;

/// Words as a command for a shell.
std::string quoted(const Words& words) {
  std::string line;
  for (const auto& word : words) line += "'" + word + "' ";
  return line;
}

Words training(const fs::path& out) {
  auto command = short_training(out);
  command.insert(command.end(), {"--checkpoint-every", "10", "--resume"});
  return command;
}

/// The step of the checkpoint that an error names.
int step_that_failed(const std::string& printed) {
  std::smatch found;
  const std::regex name("checkpoint\\.([0-9]+)\\.safetensors");
  if (!std::regex_search(printed, found, name)) return 0;
  return std::stoi(found[1]);
}

TEST(FullDisk, AFileThatCannotGrowLeavesThePreviousCheckpoint) {
  const ToolFolder folder;
  const auto run = folder.at("run");
  folder.run(training(folder.at("whole")));

  // A checkpoint of LeNet-5 has 500 kB. First room for it, then not.
  const auto limited = [&](int blocks) {
    const auto tool = quoted(tool_command(training(run)));
    return folder.run_command(
        {"sh", "-c", "trap '' XFSZ; ulimit -f " + std::to_string(blocks) + "; exec " + tool});
  };
  auto process = folder.start(training(run));
  wait_until(process, [&] { return fs::exists(run / "checkpoint.20.safetensors"); });
  process.send(SIGKILL);
  process.wait();
  const auto saved_before = adaact::testing::bytes_of(run / "checkpoint.20.safetensors");
  ASSERT_FALSE(saved_before.empty()) << "the run was killed too late";

  const auto [code, printed] = limited(/*blocks of 512 bytes=*/400);
  EXPECT_EQ(code, 1) << printed;
  EXPECT_TRUE(contains(printed, "cannot write"));
  EXPECT_TRUE(contains(printed, "File too large"));
  EXPECT_EQ(adaact::testing::bytes_of(run / "checkpoint.20.safetensors"), saved_before);
  const auto failed = step_that_failed(printed);
  const auto last = metrics_of(run).back().at("step").get<int>();
  EXPECT_GE(last, failed);
  EXPECT_LT(last, failed + 10) << "the error was told only when the next checkpoint was due";

  const auto finished = folder.run(training(run));
  EXPECT_EQ(finished.code, 0) << finished.printed;
  expect_equal_runs(run, folder.at("whole"));
}

TEST(FullDisk, AFullFileSystemStopsWithAnErrorAndResumesWithMoreRoom) {
  const ToolFolder folder;
  const auto disk = folder.at("disk");
  const auto run = disk / "run";
  fs::create_directories(disk);
  folder.run(training(folder.at("whole")));

  // A file system of its own, seen by this shell alone. Two checkpoints fit, a third does not.
  const auto tool = quoted(tool_command(training(run)));
  const std::string place = "'" + disk.string() + "'";
  const std::string script = "mount -t tmpfs -o size=1200k tmpfs " + place + " || exit 77\n" +  //
                             tool + "\n" +                                                      //
                             "echo exit code $?; ls " + place + "/run\n" +                      //
                             "mount -o remount,size=64m " + place + "\n" +                      //
                             tool + " || exit 1\n" +                                            //
                             "cp -r " + place + "/run '" + folder.at("copy").string() + "'";
  const auto [code, printed] = folder.run_command({"unshare", "-rm", "sh", "-c", script});
  if (code == 77 || printed.find("unshare failed") != std::string::npos) {
    GTEST_SKIP() << "no file system can be mounted here: " << printed;
  }
  EXPECT_EQ(code, 0) << printed;
  EXPECT_TRUE(contains(printed, "checkpoint.30.safetensors"));  // the one that failed
  EXPECT_TRUE(contains(printed, "No space left on device"));
  EXPECT_TRUE(contains(printed, "exit code 1"));
  EXPECT_TRUE(contains(printed, "\ncheckpoint.20.safetensors\n"));
  expect_equal_runs(folder.at("copy"), folder.at("whole"));
}

}  // namespace
