// What a person sees who sits at a terminal.

#include <gtest/gtest.h>

#include "app/tool.h"
#include "support/errors.h"
#include "support/terminal.h"

namespace {

using adaact::testing::contains;
using adaact::testing::expect_equal_runs;
using adaact::testing::short_training;
using adaact::testing::Terminal;
using adaact::testing::tool_command;
using adaact::testing::ToolFolder;
using adaact::testing::Words;
namespace fs = std::filesystem;

class TerminalTest : public ::testing::Test {
 protected:
  /// So many epochs that it is still training when a key is pressed.
  Words long_training(const std::string& name) const {
    auto command = short_training(folder_.at(name));
    command.insert(command.end(), {"--epochs", "100000"});
    return tool_command(command);
  }

  ToolFolder folder_;
};

/// Whether every line that the tool itself says begins a line of the screen: after the end of another, or
/// where a bar was wiped away.
::testing::AssertionResult stand_alone(const std::string& shown) {
  const auto screen = shown.substr(shown.find("train loss"));  // the optimizer has the tool's name
  const std::string name = "adaact: ";
  for (auto at = screen.find(name); at != std::string::npos; at = screen.find(name, at + 1)) {
    const auto before = screen.substr(0, at);
    const auto ends_with = [&](const std::string& end) {
      return before.size() >= end.size() &&
             before.compare(before.size() - end.size(), end.size(), end) == 0;
    };
    if (before.empty() || ends_with("\n") || ends_with("\r\033[K") || ends_with("^C")) continue;
    return ::testing::AssertionFailure() << "a message is glued to what stands before it: "
                                         << screen.substr(at < 60 ? 0 : at - 60, 160);
  }
  return ::testing::AssertionSuccess();
}

TEST_F(TerminalTest, ShowsABar) {
  Terminal terminal(tool_command(short_training(folder_.at("run"))));
  EXPECT_EQ(terminal.wait(), 0) << terminal.shown();
  EXPECT_TRUE(contains(terminal.shown(), "epoch 1/3 ["));
  EXPECT_TRUE(contains(terminal.shown(), "images/s"));
  EXPECT_TRUE(contains(terminal.shown(), " left"));
  EXPECT_EQ(folder_.run(short_training(folder_.at("piped"))).printed.find('\r'), std::string::npos);
}

TEST_F(TerminalTest, ControlCIsAnsweredAtOnceAndSaves) {
  Terminal terminal(long_training("run"));
  ASSERT_TRUE(terminal.wait_for("images/s  ")) << terminal.shown();  // the bar
  terminal.press_control_c();
  EXPECT_EQ(terminal.wait(), 130) << terminal.shown();
  const auto& shown = terminal.shown();
  EXPECT_TRUE(contains(shown, " and saving; Ctrl-C again stops at once\r\n"));
  EXPECT_TRUE(contains(shown, "interrupted; all is saved"));
  EXPECT_TRUE(stand_alone(shown));
  EXPECT_FALSE(fs::exists(folder_.at("run") / "model.safetensors"));
  const auto [code, printed] =
      folder_.run({"eval", "--run", folder_.at("run").string(), "--limit-test", "40"});
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(contains(printed, "is not finished: its weights are those after step"));
}

TEST_F(TerminalTest, ASecondControlCStopsNow) {
  // Its steps take so long that the second key comes within the first one's.
  auto command = tool_command({"train", "--out", folder_.at("run").string(), "--dataset",
                               "synthetic", "--model", "resnet50", "--limit-train", "256",
                               "--limit-test", "8", "--batch-size", "256", "--threads", "1"});
  Terminal terminal(command);
  ASSERT_TRUE(terminal.wait_for("train loss")) << terminal.shown();  // the heading
  terminal.press_control_c();
  ASSERT_TRUE(terminal.wait_for("finishing step 1 and saving")) << terminal.shown();
  terminal.press_control_c();
  EXPECT_EQ(terminal.wait(), -SIGINT) << terminal.shown();
  EXPECT_TRUE(contains(terminal.shown(), "stopped at once; --resume goes on"));
  EXPECT_TRUE(stand_alone(terminal.shown()));
}

TEST_F(TerminalTest, AnErrorDoesNotStickToTheBar) {
  // The second step diverges; the bar is drawn after the first.
  auto command = short_training(folder_.at("run"));
  command.insert(command.end(), {"--optimizer", "sgd", "--lr", "1e30"});
  Terminal terminal(tool_command(command));
  EXPECT_EQ(terminal.wait(), 1);
  EXPECT_TRUE(contains(terminal.shown(), "images/s  "));
  EXPECT_TRUE(contains(terminal.shown(), "is not finite"));
  EXPECT_TRUE(stand_alone(terminal.shown()));
}

}  // namespace
