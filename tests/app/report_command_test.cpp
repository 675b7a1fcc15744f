// `adaact report` and `adaact eval` on one run, several and folders of them.

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/tool.h"
#include "support/errors.h"
#include "support/made_up_run.h"

namespace {

using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::MadeUpRun;
using adaact::testing::Outcome;
using adaact::testing::run_with;
using adaact::testing::short_training;
using adaact::testing::ToolFolder;
using adaact::testing::Words;
using adaact::testing::write_run;
using nlohmann::json;
namespace fs = std::filesystem;

class ReportCommandTest : public ::testing::Test {
 protected:
  Outcome run(const Words& arguments) const { return folder_.run(arguments); }
  fs::path at(const std::string& name) const { return folder_.at(name); }
  /// Two seeds of 70 and 80 %, and another run of 60 %.
  void make_three_runs() const {
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      auto made_up = run_with("sgd", R"({"lr": 0.1})");
      made_up.config.seed = seed;
      made_up.top1_of_last_epoch = 0.70 + 0.10 * static_cast<double>(seed);
      write_run(at("runs/sgd/seed-" + std::to_string(seed)), made_up);
    }
    MadeUpRun other;
    other.top1_of_last_epoch = 0.6;
    write_run(at("runs/other"), other);
  }
  Words report(const std::string& runs) const {
    return {"report", at(runs).string(), "--out", at("page.html").string()};
  }

  ToolFolder folder_;
};

TEST_F(ReportCommandTest, TheTerminalSaysWhatThePageSays) {
  make_three_runs();
  const auto [code, printed] = run(report("runs"));
  ASSERT_EQ(code, 0) << printed;
  const auto html = bytes_of(at("page.html"));
  for (const char* said : {"other", "sgd", "75.00 ± 5.00 %", "60.00 %"}) {
    EXPECT_TRUE(contains(printed, said));
    EXPECT_TRUE(contains(html, said));
  }
  EXPECT_TRUE(contains(printed, "*75.00 ± 5.00 %"));
  EXPECT_TRUE(contains(printed, "* the best on the same data"));
  EXPECT_TRUE(contains(html, "<td class=\"number best\">75.00 ± 5.00 %</td>"));
  EXPECT_LT(printed.find("other "), printed.find("sgd "));
  EXPECT_LT(html.find(">other<"), html.find(">sgd<"));
}

TEST_F(ReportCommandTest, JsonHasRunsAndGroups) {
  make_three_runs();
  auto command = report("runs");
  command.emplace_back("--json");
  const auto result = json::parse(run(command).printed);
  EXPECT_EQ(result["runs"].size(), 3U);
  ASSERT_EQ(result["groups"].size(), 2U);
  const auto& seeds = result["groups"][1];
  EXPECT_EQ(seeds["name"], "sgd");
  EXPECT_EQ(seeds["seeds"], (json{0, 1}));
  EXPECT_NEAR(seeds["test_top1_mean"].get<double>(), 0.75, 1e-12);
  EXPECT_NEAR(seeds["test_top1_standard_error"].get<double>(), 0.05, 1e-12);
  EXPECT_TRUE(result["groups"][0]["test_top1_standard_error"].is_null());
}

TEST_F(ReportCommandTest, OptionsThatDoNotGoTogetherAreRefused) {
  make_three_runs();
  auto watching = report("runs");
  watching.emplace_back("--watch");
  EXPECT_EQ(run(watching).code, 2);
  const auto [code, printed] = run({"report", at("runs").string(), "--port", "8000"});
  EXPECT_EQ(code, 2);
  EXPECT_TRUE(contains(printed, "--port requires --watch"));
  EXPECT_EQ(run({"report", at("runs").string(), "--watch", "--port", "70000"}).code, 2);
}

TEST_F(ReportCommandTest, EvalTakesSeedsAndTellsOfClasses) {
  auto training = short_training(at("seeds"));
  training.insert(training.end(), {"--seeds", "0,1"});
  ASSERT_EQ(run(training).code, 0);
  const Words eval{"eval", "--run", at("seeds").string(), "--limit-test", "40"};
  auto with_json = eval;
  with_json.insert(with_json.end(), {"--json", "--details"});
  const auto result = json::parse(run(with_json).printed);
  ASSERT_EQ(result["runs"].size(), 2U);
  ASSERT_EQ(result["groups"].size(), 1U);
  EXPECT_EQ(result["groups"][0]["name"], "seeds");
  EXPECT_NEAR(
      result["groups"][0]["top1_mean"].get<double>(),
      0.5 * (result["runs"][0]["top1"].get<double>() + result["runs"][1]["top1"].get<double>()),
      1e-12);
  for (const auto& each : result["runs"]) {
    std::int64_t right = 0;
    std::int64_t images = 0;
    const auto& matrix = each["details"]["confusion"];
    ASSERT_EQ(matrix.size(), 10U);
    for (std::size_t row = 0; row < 10; ++row) {
      right += matrix[row][row].get<std::int64_t>();
      for (const auto& count : matrix[row]) images += count.get<std::int64_t>();
    }
    EXPECT_EQ(images, 40);
    EXPECT_NEAR(static_cast<double>(right) / 40.0, each["top1"].get<double>(), 1e-12);
  }
  const auto [code, printed] = run(eval);
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(contains(printed, "mean of 2 seeds"));
  const auto one =
      run({"eval", "--run", at("seeds/seed-0").string(), "--limit-test", "40", "--details"});
  EXPECT_EQ(one.code, 0);
  EXPECT_TRUE(contains(one.printed, "most often taken for"));
  EXPECT_TRUE(contains(one.printed, "confusion matrix"));
  // A run that cannot be evaluated is named, and the others are.
  fs::remove(at("seeds/seed-1") / "model.safetensors");
  for (const auto& entry : fs::directory_iterator(at("seeds/seed-1"))) {
    if (entry.path().filename().string().rfind("checkpoint", 0) == 0) fs::remove(entry.path());
  }
  const auto partly = run(eval);
  EXPECT_EQ(partly.code, 1);
  EXPECT_TRUE(contains(partly.printed, "seed-1"));
  EXPECT_TRUE(contains(partly.printed, "seed-0  "));
}

TEST_F(ReportCommandTest, ARunThatGoesOnWritesTheSameDetails) {
  ASSERT_EQ(run(short_training(at("whole"))).code, 0);
  const auto details = bytes_of(at("whole") / "test_details.json");
  const auto parsed = json::parse(details);
  EXPECT_EQ(parsed["classes"].size(), 10U);
  EXPECT_LE(parsed["most_wrong"].size(), 12U);
  // As after a kill before the model was written.
  fs::remove(at("whole") / "model.safetensors");
  fs::remove(at("whole") / "test_details.json");
  auto again = short_training(at("whole"));
  again.emplace_back("--resume");
  ASSERT_EQ(run(again).code, 0);
  EXPECT_EQ(bytes_of(at("whole") / "test_details.json"), details);
  EXPECT_TRUE(fs::exists(at("whole") / "model.safetensors"));
}

}  // namespace
