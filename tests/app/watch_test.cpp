// `adaact report --watch`, with a browser where there is one. Skipped where the tool was built without
// cpp-httplib, or there is no browser.

#include <gtest/gtest.h>

#include "app/tool.h"
#include "support/made_up_details.h"
#include "support/made_up_run.h"

namespace {

using adaact::testing::MadeUpRun;
using adaact::testing::run_with;
using adaact::testing::ToolFolder;
using adaact::testing::write_details;
using adaact::testing::write_run;

constexpr int kNoBrowser = 77;

TEST(Watch, ServesAPageThatFollowsItsRuns) {
  const ToolFolder folder;
  auto going_on = run_with("adaact", R"({"lr": 0.1})");
  going_on.config.epochs = 9;
  going_on.finished = false;
  write_run(folder.at("runs/going_on"), going_on);
  write_run(folder.at("runs/whole"), run_with("sgd", R"({"lr": 0.1})"));
  write_details(folder.at("runs/whole"), 10);
  const auto [code, printed] =
      folder.run_command({"python3", ADAACT_CHECK_WATCH, ADAACT_TOOL, folder.at("runs").string()});
  if (printed.find("built without cpp-httplib") != std::string::npos) GTEST_SKIP() << printed;
  if (code == kNoBrowser) GTEST_SKIP() << printed;
  EXPECT_EQ(code, 0) << printed;
}

}  // namespace
