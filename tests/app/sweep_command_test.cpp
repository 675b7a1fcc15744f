// `adaact sweep` and `adaact find-lr` as a person uses them.

#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/tool.h"
#include "support/errors.h"

namespace {

using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::expect_equal_runs;
using adaact::testing::Outcome;
using adaact::testing::ToolFolder;
using adaact::testing::wait_until;
using adaact::testing::Words;
using nlohmann::json;
namespace fs = std::filesystem;

class SweepCommandTest : public ::testing::Test {
 protected:
  Words sweeping(const std::string& name, const Words& more = {}) const {
    Words command{"sweep",
                  "--out",
                  at(name).string(),
                  "--dataset",
                  "synthetic",
                  "--limit-train",
                  "96",
                  "--limit-test",
                  "40",
                  "--batch-size",
                  "8",
                  "--lr",
                  "0.01,0.03,0.1",
                  "--threads",
                  "1"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  Outcome sweep(const std::string& name, const Words& more = {}) const {
    return folder_.run(sweeping(name, more));
  }
  fs::path at(const std::string& name) const { return folder_.at(name); }

  static bool has_line_longer_than(const std::string& text, std::size_t most) {
    std::size_t length = 0;
    for (const char letter : text) {
      length = letter == '\n' ? 0 : length + 1;
      if (length > most) return true;
    }
    return false;
  }

  ToolFolder folder_;
};

const Words kTwoOptimizers{"--optimizers", "adaact,sgd"};

TEST_F(SweepCommandTest, EndsInATableAndAPage) {
  const auto [code, printed] = sweep("sweep", kTwoOptimizers);
  EXPECT_EQ(code, 0) << printed;
  EXPECT_TRUE(contains(printed, "adaact-lr-0.01-wd-0.002 begins"));
  EXPECT_TRUE(contains(printed, "[6/6]"));
  EXPECT_TRUE(contains(printed, "stopped early"));
  EXPECT_TRUE(contains(printed, "best of"));
  EXPECT_TRUE(contains(printed, (at("sweep") / "sweep.html").string()));
  EXPECT_TRUE(contains(bytes_of(at("sweep") / "sweep.html"), "--optimizers adaact,sgd"));
  const auto again = sweep("sweep", kTwoOptimizers);
  EXPECT_EQ(again.code, 0);
  EXPECT_TRUE(contains(again.printed, "already finished"));
  EXPECT_FALSE(contains(again.printed, "begins"));
}

TEST_F(SweepCommandTest, AsJson) {
  const auto [code, printed] = sweep("sweep", {"--json", "--no-halving", "--epochs", "1"});
  EXPECT_EQ(code, 0);
  const auto result = json::parse(printed);
  EXPECT_EQ(result["interrupted"], false);
  ASSERT_EQ(result["trials"].size(), 3U);
  ASSERT_EQ(result["best"].size(), 1U);
  EXPECT_EQ(result["best"][0]["trial"], result["trials"][0]["trial"]);
  EXPECT_EQ(result["best"][0]["test_top1"], result["trials"][0]["test_top1"]);
  EXPECT_EQ(result["trials"][2]["state"], "finished");
}

TEST_F(SweepCommandTest, ATrialIsAnOrdinaryRun) {
  EXPECT_EQ(sweep("sweep", {"--no-halving", "--jobs", "2", "--optimizers", "adam"}).code, 0);
  const Words alone{"train",
                    "--out",
                    at("alone").string(),
                    "--dataset",
                    "synthetic",
                    "--limit-train",
                    "96",
                    "--limit-test",
                    "40",
                    "--batch-size",
                    "8",
                    "--lr",
                    "0.03",
                    "--optimizer",
                    "adam",
                    "--threads",
                    "1"};
  EXPECT_EQ(folder_.run(alone).code, 0);
  expect_equal_runs(at("sweep") / "adam-lr-0.03-wd-0", at("alone"));
}

TEST_F(SweepCommandTest, GoesOnAfterKills) {
  const Words more{"--jobs", "2", "--optimizers", "adaact,sgd"};
  EXPECT_EQ(sweep("whole", more).code, 0);
  std::mt19937 random(20261118);
  const auto epochs_in = [&](const fs::path& folder) {
    std::size_t lines = 0;
    std::error_code none;
    for (const auto& entry : fs::recursive_directory_iterator(folder, none)) {
      if (entry.path().filename() != "metrics.jsonl") continue;
      const auto text = bytes_of(entry.path());
      lines += static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    }
    return lines;
  };
  int kills = 0;
  for (std::size_t lines = 5; lines < 120; lines += 5 + random() % 20) {
    auto process = folder_.start(sweeping("killed", more));
    wait_until(process, [&] { return epochs_in(at("killed")) >= lines; });
    process.send(SIGKILL);
    if (process.wait() == -SIGKILL) ++kills;
  }
  EXPECT_GE(kills, 4);
  const auto [code, printed] = sweep("killed", more);
  EXPECT_EQ(code, 0) << printed;
  for (const auto& entry : fs::directory_iterator(at("whole"))) {
    const auto name = entry.path().filename();
    if (fs::exists(entry.path() / "model.safetensors")) {
      expect_equal_runs(at("killed") / name, entry.path());
    } else {
      EXPECT_FALSE(fs::exists(at("killed") / name / "model.safetensors"));
    }
  }
}

TEST_F(SweepCommandTest, ASignalSavesAndTheFolderGoesOnByItself) {
  auto process = folder_.start(sweeping("sweep", {"--epochs", "30", "--no-halving"}));
  wait_until(process,
             [&] { return fs::exists(at("sweep") / "adaact-lr-0.01-wd-0.002" / "metrics.jsonl"); });
  process.send(SIGINT);
  EXPECT_EQ(process.wait(), 130) << process.printed();
  EXPECT_TRUE(contains(process.printed(), "the same command goes on"));
  const auto [code, printed] = folder_.run({"sweep", "--out", at("sweep").string(), "--resume"});
  EXPECT_EQ(code, 0) << printed;
  EXPECT_TRUE(contains(printed, "finished: "));
  EXPECT_FALSE(contains(printed, "unfinished"));
}

TEST_F(SweepCommandTest, AnotherPlanIsRefused) {
  EXPECT_EQ(sweep("sweep", {"--epochs", "1"}).code, 0);
  const auto [code, printed] = sweep("sweep", {"--epochs", "2"});
  EXPECT_EQ(code, 1);
  EXPECT_TRUE(contains(printed, "epochs is 2, there it is 1"));
}

TEST_F(SweepCommandTest, ADivergedTrialIsMarked) {
  const auto [code, printed] =
      sweep("sweep", {"--optimizers", "sgd", "--lr-of", "sgd=0.01,1e30", "--epochs", "1"});
  EXPECT_EQ(code, 0) << printed;
  EXPECT_TRUE(contains(printed, "sgd-lr-1e+30-wd-0.0005 diverged in epoch 1"));
}

TEST_F(SweepCommandTest, WrongValuesAreErrorsOfTheCommandLine) {
  const auto expect_refused = [&](const Words& more, const char* part) {
    const auto [code, printed] = sweep("sweep", more);
    EXPECT_EQ(code, 2) << printed;
    EXPECT_TRUE(contains(printed, part));
    EXPECT_FALSE(fs::exists(at("sweep")));
  };
  expect_refused({"--optimizers", "sdg"}, "did you mean 'sgd'?");
  expect_refused({"--lr-of", "sgd"}, "--lr-of: is 'sgd', expected an optimizer and");
  expect_refused({"--lr-of", "sgd=0.1,,2"}, "--lr-of: is 'sgd=0.1,,2'");
  expect_refused({"--weight-decay", "-1"}, "--weight-decay is -1, expected numbers ≥ 0");
  expect_refused({"--draws", "-3"}, "draws is -3");
  expect_refused({"--epochs", "0"}, "epochs is 0");
  expect_refused({"--jobs", "-1"}, "--jobs");
  expect_refused({"--resume"}, "--resume excludes --lr");
  const auto without_rates = folder_.run({"sweep", "--out", at("sweep").string()});
  EXPECT_EQ(without_rates.code, 2);
  EXPECT_TRUE(contains(without_rates.printed, "--lr, or --resume"));
}

TEST_F(SweepCommandTest, HelpFitsAScreen) {
  for (const char* command : {"sweep", "find-lr"}) {
    const auto [code, printed] = folder_.run({command, "--help"});
    EXPECT_EQ(code, 0);
    EXPECT_FALSE(has_line_longer_than(printed, 100)) << printed;
  }
}

TEST_F(SweepCommandTest, FindLrSuggestsRatesAndWritesNothingElse) {
  const Words finding{"find-lr", "--dataset", "synthetic", "--limit-train", "160", "--batch-size",
                      "16",      "--threads", "1",         "--steps",       "60"};
  const auto before = fs::current_path();
  fs::create_directories(at("empty"));
  fs::current_path(at("empty"));
  const auto [code, printed] = folder_.run(finding);
  EXPECT_TRUE(fs::is_empty(at("empty")));
  fs::current_path(before);
  EXPECT_EQ(code, 0) << printed;
  EXPECT_TRUE(contains(printed, "suggestion: --lr "));

  auto as_json = finding;
  as_json.insert(as_json.end(), {"--json", "--out", at("lr.html").string()});
  const auto result = json::parse(folder_.run(as_json).printed);
  EXPECT_GT(result["steepest_lr"], 0.0);
  EXPECT_NEAR(result["points"][0]["lr"].get<double>(), 1e-6, 1e-12);
  EXPECT_TRUE(contains(bytes_of(at("lr.html")), "Loss against learning rate"));

  auto wrong = finding;
  wrong.insert(wrong.end(), {"--to", "1e-9"});
  const auto refused = folder_.run(wrong);
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(contains(refused.printed, "--to is 1e-09, expected more than 1e-06"));
}

}  // namespace
