#include "experiments/page/experiment_page.h"

#include <fstream>

#include <gtest/gtest.h>

#include "experiments/made_up_cifar.h"
#include "experiments/paper/catalog.h"
#include "support/errors.h"
#include "support/made_up_found.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace {

using adaact::ExperimentForm;
using adaact::Found;
using adaact::table_cifar;
using adaact::testing::as_in_the_paper;
using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::ended_after;
using adaact::testing::found_with;
using adaact::testing::TemporaryFolder;

class ExperimentPageTest : public ::testing::Test {
 protected:
  std::string page_of(const ExperimentForm& form, const Found& found) const {
    const auto path = folder_.path() / "page.html";
    write_experiment_page(table_cifar(), form, found, path,
                          {"adaact reproduce '<table>'", {{"LibTorch", "1.2.3"}}});
    return bytes_of(path);
  }

  TemporaryFolder folder_;
};

TEST_F(ExperimentPageTest, OfThePapersSettingHasFindings) {
  const auto html = page_of({}, found_with(table_cifar(), as_in_the_paper()));
  EXPECT_TRUE(contains(html, "<h1>Table 1: test accuracy on CIFAR</h1>"));
  EXPECT_TRUE(contains(html, "Not all is there yet:</strong> 14 of 140 runs."));
  EXPECT_TRUE(contains(html, "AdaAct&#39;s accuracy is similar to SGD&#39;s"));
  EXPECT_TRUE(contains(html, "adaact reproduce &#39;&lt;table&gt;&#39;"));
  EXPECT_TRUE(contains(html, "<dt>LibTorch</dt><dd>1.2.3</dd>"));
  EXPECT_TRUE(contains(html, "<summary>14 runs</summary>"));
  EXPECT_EQ(html.find("not the paper&#39;s setting"), std::string::npos);
}

TEST_F(ExperimentPageTest, OfAnotherSettingSaysWhatDiffersAndHasNoFindings) {
  ExperimentForm quick;
  quick.quick = true;
  const auto html = page_of(quick, found_with(table_cifar(), as_in_the_paper(), quick));
  EXPECT_TRUE(contains(html, "This is not the paper&#39;s setting:"));
  EXPECT_TRUE(contains(html, "dataset fashion-mnist instead of cifar10"));
  EXPECT_TRUE(contains(html, "epochs 3 instead of 200"));
  EXPECT_TRUE(contains(html, "limit_train 2560 instead of all"));
  EXPECT_EQ(html.find("What the paper says"), std::string::npos);
}

TEST_F(ExperimentPageTest, ShowsRunsThatDiverged) {
  auto found = found_with(table_cifar(), {{"sgd", {92.0}}});
  for (auto& run : found.runs) {
    if (run.history) run.history = ended_after({});
  }
  EXPECT_TRUE(contains(page_of({}, found),
                       ">10.00 %<span class=\"state\">diverged in epoch 1</span></td>"
                       "<td class=\"number\">–</td>"));
}

TEST_F(ExperimentPageTest, OtherSeedsAreNoOtherSetting) {
  ExperimentForm form;
  form.seeds = {11};
  form.dataset = "cifar100";
  EXPECT_EQ(page_of(form, found_with(table_cifar(), {}, form)).find("not the paper&#39;s"),
            std::string::npos);
}

TEST_F(ExperimentPageTest, TellsOfTheMachinesOfItsRuns) {
  auto found = found_with(table_cifar(), {{"sgd", {92.0}}});
  for (auto& run : found.runs) {
    if (run.history) run.history->folder = folder_.path();
  }
  std::ofstream(folder_.path() / "environment.json")
      << R"([{"started": "today", "gpu": "H200"}, {"started": "later", "gpu": "H200"}])";
  EXPECT_TRUE(contains(page_of({}, found), "<dt>1 run</dt><dd>gpu H200</dd>"));
}

}  // namespace
