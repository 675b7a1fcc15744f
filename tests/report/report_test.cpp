#include <adaact/report/report.h>

#include <fstream>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/made_up_details.h"
#include "support/made_up_run.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace {

using adaact::ReportOptions;
using adaact::write_report;
using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::diverged_run;
using adaact::testing::error_of;
using adaact::testing::made_up_config;
using adaact::testing::MadeUpRun;
using adaact::testing::run_with;
using adaact::testing::TemporaryFolder;
using adaact::testing::write_run;
namespace fs = std::filesystem;

class ReportTest : public ::testing::Test {
 protected:
  fs::path made(const std::string& name, const MadeUpRun& run) const {
    write_run(folder_.path() / name, run);
    return folder_.path() / name;
  }
  std::string reported(const std::vector<fs::path>& runs, const ReportOptions& options = {}) const {
    write_report(runs, page(), options);
    return bytes_of(page());
  }
  fs::path page() const { return folder_.path() / "report.html"; }
  static bool lacks(const std::string& text, const std::string& part) {
    return text.find(part) == std::string::npos;
  }

  TemporaryFolder folder_;
};

TEST_F(ReportTest, ComparesRuns) {
  auto worse = run_with("sgd", R"({"lr": 0.1, "momentum": 0.9})");
  worse.top1_of_last_epoch = 0.5;
  const auto html = reported(
      {made("ours", run_with("adaact", R"({"lr": 0.1, "eps": 1e-8})")), made("theirs", worse)});
  EXPECT_TRUE(contains(html, "<h1>Comparison of 2 training runs</h1>"));
  EXPECT_TRUE(contains(html, "Best test accuracy: 75.00 %, ours (adaact) after epoch 3."));
  EXPECT_TRUE(contains(html, "<td class=\"number best\">75.00 %</td>"));
  EXPECT_TRUE(contains(html, "<td class=\"number\">50.00 %</td>"));
  EXPECT_TRUE(contains(html, "<td class=\"number\">15.0 s</td>"));
  for (const char* figure :
       {"train_loss_epochs", "train_loss_seconds", "test_accuracy_epochs", "test_accuracy_seconds",
        "test_loss_epochs", "learning_rate_epochs", "gradient_norm_epochs", "step_time_epochs",
        "second_moments_by_layer", "second_moments_run_1", "second_moments_run_2"}) {
    EXPECT_TRUE(fs::exists(folder_.path() / "report_figures" / (std::string(figure) + ".png")));
    EXPECT_TRUE(contains(html, std::string("./report_figures/") + figure + ".png"));
  }
}

TEST_F(ReportTest, ShowsOptionsOfTheOptimizerOneByOneWhereTheyDiffer) {
  const auto html = reported({made("a", run_with("sgd", R"({"lr": 0.1, "momentum": 0.9})")),
                              made("b", run_with("sgd", R"({"lr": 0.2, "momentum": 0.9})"))});
  const auto differing = html.substr(0, html.find("<details"));
  EXPECT_TRUE(contains(differing,
                       "<code>optimizer.lr</code></th><td class=\"wide\">0.1</td>"
                       "<td class=\"wide\">0.2</td>"));
  EXPECT_TRUE(lacks(differing, "optimizer.momentum"));
  EXPECT_TRUE(contains(html, "<code>optimizer.momentum</code></th><td class=\"wide\">0.9</td>"));
}

TEST_F(ReportTest, SaysThatNothingDiffers) {
  const auto html = reported({made("a", {}), made("b", {})});
  EXPECT_TRUE(contains(html, "Nothing: the runs have the same configuration."));
}

TEST_F(ReportTest, OneRunHasItsSettings) {
  const auto html = reported({made("alone", {})});
  EXPECT_TRUE(contains(html, "<h1>Training run alone</h1>"));
  EXPECT_TRUE(contains(html, "<h2>Settings</h2>"));
  EXPECT_TRUE(contains(html, "<code>clip_norm</code></th><td class=\"wide\">∞</td>"));
}

TEST_F(ReportTest, ShowsRunsThatAreNotFinished) {
  MadeUpRun going_on;
  going_on.config.epochs = 5;
  going_on.epochs = 2;
  going_on.further_steps = 4;
  going_on.finished = false;
  MadeUpRun begun = going_on;
  begun.epochs = 0;
  const auto html = reported({made("going_on", going_on), made("begun", begun)});
  EXPECT_TRUE(contains(html, "2 of 5"));
  EXPECT_TRUE(contains(html, "0 of 5"));
  EXPECT_TRUE(contains(html, ">not finished</span>"));
  EXPECT_TRUE(contains(html, ">no epoch finished yet</span>"));
}

TEST_F(ReportTest, SaysThatARunDiverged) {
  const auto at_once = made("at_once", diverged_run(made_up_config(), 0));
  const auto alone = reported({at_once});
  EXPECT_TRUE(contains(alone, ">diverged in epoch 1</span>"));
  EXPECT_TRUE(contains(alone, "No epoch was finished."));
  const auto html = reported({at_once, made("later", diverged_run(made_up_config(), 2))});
  EXPECT_TRUE(contains(html, ">diverged in epoch 3</span>"));
  EXPECT_TRUE(contains(html, "2 of 3"));
}

TEST_F(ReportTest, ShowsRunsOfWhichNothingIsThereYet) {
  const auto run = made("run", {});
  fs::remove(run / "metrics.jsonl");
  fs::remove(run / "model.safetensors");
  const auto html = reported({run});
  EXPECT_TRUE(contains(html, "No epoch is finished yet."));
  EXPECT_TRUE(contains(html, "Nothing to show yet."));
}

TEST_F(ReportTest, EscapesWhateverComesFromFiles) {
  MadeUpRun run;
  run.config.weights = "/a\"b'/<script>alert(1)</script>&.safetensors";
  run.layers = {"<b>.weight", "x&y.weight"};
  ReportOptions options;
  options.command = "adaact report '<run>'";
  options.facts = {{"<fact>", "a&b"}};
  const auto html = reported({made("<i>&\"'", run)}, options);
  EXPECT_TRUE(lacks(html, "<script>alert"));
  EXPECT_TRUE(lacks(html, "<b>"));
  EXPECT_TRUE(lacks(html, "<i>"));
  EXPECT_TRUE(contains(html, "&lt;script&gt;alert(1)&lt;/script&gt;&amp;.safetensors"));
  EXPECT_TRUE(contains(html, "adaact report &#39;&lt;run&gt;&#39;"));
  EXPECT_TRUE(contains(html, "<dt>&lt;fact&gt;</dt><dd>a&amp;b</dd>"));
}

TEST_F(ReportTest, SeedsAreOneRowAndOneCurve) {
  std::vector<fs::path> runs;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    MadeUpRun run;
    run.config.seed = seed;
    run.top1_of_last_epoch = 0.70 + 0.05 * static_cast<double>(seed);
    runs.push_back(made("mine/seed-" + std::to_string(seed), run));
  }
  const auto html = reported({folder_.path() / "mine"});
  EXPECT_TRUE(contains(html, "<h1>Training of mine with 3 seeds</h1>"));
  EXPECT_TRUE(contains(html, "Best test accuracy: 75.00 ± 2.89 %, mean of 3 seeds."));
  EXPECT_TRUE(
      contains(html, ">mean of 3 seeds</span></th><td class=\"number\">75.00 ± 2.89 %</td>"));
  EXPECT_TRUE(contains(html, "<code>seed</code></th><td class=\"wide\">0, 1, 2</td>"));
  EXPECT_TRUE(contains(html, "in a band of its standard error"));
  const auto compared = reported({runs[0], made("other", run_with("sgd", R"({"lr": 0.1})"))});
  EXPECT_TRUE(contains(compared, "<h1>Comparison of 2 training runs</h1>"));
}

TEST_F(ReportTest, NamesTheBestOnEachData) {
  MadeUpRun other;
  other.config.dataset = "cifar10";
  other.top1_of_last_epoch = 0.5;
  const auto html = reported({made("a", {}), made("b", other)});
  EXPECT_TRUE(contains(html,
                       "Best test accuracy on cifar10: 50.00 %, b (adaact) after epoch 3. "
                       "Best test accuracy on fashion-mnist: 75.00 %, a (adaact) after epoch 3."));
}

TEST_F(ReportTest, ShowsWhatATestSaysInDetail) {
  const auto run = made("run", {});
  EXPECT_TRUE(lacks(reported({run}), "Most confidently wrong"));
  adaact::testing::write_details(run, 10);
  EXPECT_TRUE(contains(reported({run}), "Most confidently wrong"));
  std::vector<fs::path> many{run};
  for (int i = 0; i < 4; ++i) many.push_back(made("other" + std::to_string(i), {}));
  EXPECT_TRUE(
      contains(reported(many), "<details data-name=\"classes of run\"><summary>run</summary>"));
  std::ofstream(run / "test_details.json") << "{\"classes\": []}";
  EXPECT_TRUE(contains(error_of([&] { reported({run}); }),
                       "test_details.json has no details of a test: classes are empty"));
}

TEST_F(ReportTest, ShowsSomeLayersOfADeepModel) {
  MadeUpRun run;
  run.layers.clear();
  for (int layer = 0; layer < 60; ++layer)
    run.layers.push_back("l" + std::to_string(layer) + ".weight");
  const auto html = reported({made("deep", run)});
  EXPECT_TRUE(contains(html, "6 of 60 layers, evenly spread"));
  EXPECT_TRUE(contains(html, "<span>l0</span>"));
  EXPECT_TRUE(contains(html, "<span>l59</span>"));
  EXPECT_TRUE(contains(html, "layer, counted from the input"));
}

TEST_F(ReportTest, ReplacesAnEarlierReport) {
  const auto run = made("run", {});
  const auto first = reported({run});
  EXPECT_EQ(reported({run}), first) << "the same runs give the same page";
  EXPECT_NE(reported({run, made("other", {})}), first);
}

TEST_F(ReportTest, SaysInOneLineWhatIsNoRun) {
  const auto error = error_of([&] { write_report({folder_.path() / "nothing"}, page()); });
  EXPECT_TRUE(contains(error, "nothing is no run: there is no such folder"));
  EXPECT_FALSE(fs::exists(page()));
}

}  // namespace
