// A report in a real browser: nothing in the console, nothing cut off or too wide, on a phone and on a
// desktop, light and dark. Skipped where there is no Chromium. ADAACT_SCREENSHOTS names a folder for
// the screenshots.

#include <adaact/report/report.h>

#include <gtest/gtest.h>

#include "support/made_up_details.h"
#include "support/made_up_run.h"
#include "support/process.h"
#include "support/temporary_folder.h"

namespace {

using adaact::write_report;
using adaact::testing::MadeUpRun;
using adaact::testing::Process;
using adaact::testing::run_with;
using adaact::testing::TemporaryFolder;
using adaact::testing::write_details;
using adaact::testing::write_run;
namespace fs = std::filesystem;

constexpr int kNoBrowser = 77;

class ReportInBrowserTest : public ::testing::Test {
 protected:
  fs::path made(const std::string& name, const MadeUpRun& run) const {
    write_run(folder_.path() / name, run);
    return folder_.path() / name;
  }

  /// Whether check_page.py is content with a report on these runs.
  void check(const std::string& name, const std::vector<fs::path>& runs, int plots,
             const std::vector<std::string>& used_figures = {}) const {
    const auto page = folder_.path() / (name + ".html");
    write_report(runs, page, {"", "adaact report runs/*", {{"adaact", "0.1.0"}}});
    std::vector<std::string> command{"python3", ADAACT_CHECK_PAGE, page.string(), "--plots",
                                     std::to_string(plots)};
    for (const auto& run : runs) {
      command.insert(command.end(), {"--contains", run.filename().string()});
    }
    for (const auto& figure : used_figures) command.insert(command.end(), {"--use", figure});
    const auto screenshots = fs::path(ADAACT_SCREENSHOTS) / name;
    fs::remove_all(screenshots);
    command.insert(command.end(), {"--screenshots", screenshots.string()});
    Process checking(command, folder_.path() / "output");
    const int exit_code = checking.wait();
    if (exit_code == kNoBrowser) GTEST_SKIP() << checking.printed();
    EXPECT_EQ(exit_code, 0) << checking.printed();
    int pictures = 0;  // phone and desktop, light and dark
    for (const auto& entry : fs::directory_iterator(screenshots)) {
      if (entry.path().extension() == ".png" && entry.file_size() > 5000) ++pictures;
    }
    EXPECT_EQ(pictures, 4) << screenshots;
  }

  TemporaryFolder folder_;
};

TEST_F(ReportInBrowserTest, ThreeRuns) {
  check("three_runs",
        {made("adaact", run_with("adaact", R"({"lr": 0.1, "betas": [0.9, 0.999]})")),
         made("sgd", run_with("sgd", R"({"lr": 0.1, "momentum": 0.9})")),
         made("adam", run_with("adam", R"({"lr": 0.001, "betas": [0.9, 0.999]})"))},
        12, {"test_accuracy_epochs", "train_loss_seconds"});
}

TEST_F(ReportInBrowserTest, SeedsWithTheDetailsOfTheirTests) {
  std::vector<fs::path> runs;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    auto run = run_with("adaact", R"({"lr": 0.1})");
    run.config.seed = seed;
    run.top1_of_last_epoch = 0.7 + 0.02 * static_cast<double>(seed);
    runs.push_back(made("seed-" + std::to_string(seed), run));
    write_details(runs.back(), seed == 0 ? 10 : 30);
  }
  runs.push_back(made("sgd", run_with("sgd", R"({"lr": 0.1, "momentum": 0.9})")));
  check("seeds", runs, 10, {"test_accuracy_epochs"});
}

TEST_F(ReportInBrowserTest, ManyRunsWithLongAndStrangeNames) {
  std::vector<fs::path> runs;
  MadeUpRun run;
  run.layers.clear();
  for (int layer = 0; layer < 12; ++layer) {
    run.layers.push_back("block." + std::to_string(1000 + layer) + ".weight");
  }
  for (int index = 0; index < 8; ++index) {
    run.config.seed = static_cast<std::uint64_t>(index);
    run.config.weights = "/somewhere/far/away/weights_of_a_long_name_" + std::to_string(index);
    runs.push_back(made("imagenet_resnet50_with_warmup_and_cosine_" + std::to_string(index), run));
  }
  run.finished = false;
  run.epochs = 0;
  run.further_steps = 3;
  runs.push_back(made("<script>alert('begun')<&\"", run));
  check("many_runs", runs, 17);
}

TEST_F(ReportInBrowserTest, OneRunOfWhichNothingIsThereYet) {
  MadeUpRun run;
  run.epochs = 0;
  run.finished = false;
  check("one_run", {made("begun", run)}, 0);
}

}  // namespace
