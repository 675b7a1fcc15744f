#include "report/run_groups.h"

#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "report/courses.h"
#include "report/group_summary.h"
#include "support/made_up_run.h"
#include "support/temporary_folder.h"

namespace {

using adaact::Against;
using adaact::course_of;
using adaact::groups_of;
using adaact::NamedRun;
using adaact::Quantity;
using adaact::read_runs;
using adaact::RunGroup;
using adaact::summaries_of;
using adaact::testing::diverged_run;
using adaact::testing::MadeUpRun;
using adaact::testing::run_with;
using adaact::testing::TemporaryFolder;
using adaact::testing::write_run;
namespace fs = std::filesystem;

MadeUpRun seed(std::uint64_t number, double top1 = 0.75) {
  auto run = run_with("sgd", R"({"lr": 0.1})");
  run.config.seed = number;
  run.top1_of_last_epoch = top1;
  return run;
}

class RunGroupsTest : public ::testing::Test {
 protected:
  void make(const std::string& name, const MadeUpRun& run) const {
    write_run(folder_.path() / name, run);
  }
  std::vector<NamedRun> all() const { return read_runs({folder_.path()}); }
  static std::vector<std::string> names_of(const std::vector<RunGroup>& groups) {
    std::vector<std::string> names;
    for (const auto& group : groups) {
      names.push_back(group.name + " " + std::to_string(group.runs.size()));
    }
    return names;
  }
  using Names = std::vector<std::string>;

  TemporaryFolder folder_;
};

TEST_F(RunGroupsTest, SeedsOfOneConfigurationAreOneGroup) {
  make("mine/seed-10", seed(10));
  make("mine/seed-2", seed(2));
  make("sgd-0", seed(0));
  auto other = seed(5);
  other.config.optimizer_options = R"({"lr": 0.2})";
  make("faster", other);
  const auto runs = all();
  const auto groups = groups_of(runs);
  EXPECT_EQ(names_of(groups), (Names{"faster 1", "sgd-0 3"}));  // of different folders: the first
  EXPECT_EQ(groups[1].runs[0]->history.config.seed, 0U);
  EXPECT_EQ(groups[1].runs[2]->history.config.seed, 10U);
}

TEST_F(RunGroupsTest, AreCalledByWhatTheirFoldersHaveInCommon) {
  for (const std::uint64_t number : {0, 1, 11}) {
    make("deep/seed-" + std::to_string(number), seed(number));
    auto adam = seed(number);
    adam.config.optimizer = "adam";
    adam.config.optimizer_options = "{}";
    make("adam-seed" + std::to_string(number), adam);
  }
  const auto runs = all();
  EXPECT_EQ(names_of(groups_of(runs)), (Names{"adam 3", "deep 3"}));
}

TEST_F(RunGroupsTest, WhereARunWasCarriedOutIsNoDifferenceButItsPrecisionIs) {
  make("a-0", seed(0));
  auto elsewhere = seed(1);
  elsewhere.config.threads = 7;
  elsewhere.config.device = "cuda";
  elsewhere.config.data_dir = "/elsewhere";
  make("a-1", elsewhere);
  auto bf16 = seed(2);
  bf16.config.precision = "bf16";
  make("b", bf16);
  const auto runs = all();
  EXPECT_EQ(names_of(groups_of(runs)), (Names{"a 2", "b 1"}));
}

TEST_F(RunGroupsTest, OptionsThatWereNotGivenAreTheDefaults) {
  make("a-0", seed(0));
  auto said = seed(1);
  said.config.optimizer_options = R"({"lr": 0.1, "momentum": 0.9})";
  make("a-1", said);
  const auto runs = all();
  EXPECT_EQ(groups_of(runs).size(), 1U);
}

TEST_F(RunGroupsTest, ASecondRunOfASeedIsNotOneMore) {
  make("a", seed(0));
  make("b", seed(0));
  const auto runs = all();
  EXPECT_EQ(names_of(groups_of(runs)), (Names{"a 1", "b 1"}));
}

TEST_F(RunGroupsTest, GroupsThatWouldShareANameDoNot) {
  for (int number = 0; number < 4; ++number) {
    auto run = seed(static_cast<std::uint64_t>(number));
    if (number >= 2) run.config.batch_size = 7;
    make("x-" + std::to_string(number), run);
  }
  const auto runs = all();
  EXPECT_EQ(names_of(groups_of(runs)), (Names{"x 2", "x-2 2"}));
}

TEST_F(RunGroupsTest, ASummaryHasMeanAndStandardError) {
  make("s/0", seed(0, 0.70));
  make("s/1", seed(1, 0.80));
  const auto runs = all();
  const auto summary = summaries_of(groups_of(runs)).at(0);
  EXPECT_EQ(summary.seeds, (std::vector<std::uint64_t>{0, 1}));
  EXPECT_DOUBLE_EQ(summary.final_top1.value.mean, 0.75);
  EXPECT_NEAR(summary.final_top1.value.standard_error, 0.05, 1e-12);
  EXPECT_FALSE(summary.final_top1.is_best) << "nothing to compare with";
  EXPECT_FALSE(summary.best_epoch.has_value());
  EXPECT_EQ(summary.state, "");
  EXPECT_EQ(summary.epochs, "3");
  EXPECT_DOUBLE_EQ(summary.seconds, 15.0);
}

TEST_F(RunGroupsTest, TheBestIsTheBestOnItsData) {
  make("a", seed(0, 0.5));
  auto better = seed(0, 0.6);
  better.config.epochs = 9;
  make("b", better);
  auto elsewhere = seed(0, 0.9);
  elsewhere.config.dataset = "cifar10";
  make("c", elsewhere);
  for (const char* folder : {"cats", "dogs"}) {
    auto own = seed(0, 0.95);
    own.config.dataset = "image-folder";
    own.config.data_dir = std::string("/data/") + folder;
    make(folder, own);
  }
  const auto runs = all();
  std::map<std::string, adaact::GroupSummary> by_name;
  for (const auto& summary : summaries_of(groups_of(runs))) by_name[summary.name] = summary;
  EXPECT_FALSE(by_name["a"].final_top1.is_best);
  EXPECT_TRUE(by_name["b"].final_top1.is_best);
  EXPECT_FALSE(by_name["c"].final_top1.is_best) << "it is alone on its data";
  EXPECT_FALSE(by_name["cats"].final_top1.is_best);
  EXPECT_EQ(by_name["dogs"].data, "image-folder dogs");
}

TEST_F(RunGroupsTest, ASummarySaysHowManySeedsAreNotWell) {
  make("s-0", seed(0));
  auto lost = diverged_run(seed(1).config, 1);
  make("s-1", lost);
  auto going_on = seed(2);
  going_on.epochs = 2;
  going_on.finished = false;
  make("s-2", going_on);
  const auto runs = all();
  const auto summary = summaries_of(groups_of(runs)).at(0);
  EXPECT_EQ(summary.state, "1 of 3 seeds diverged in epoch 2, 1 of 3 seeds not finished");
  EXPECT_EQ(summary.epochs, "1 to 3 of 3");
}

TEST_F(RunGroupsTest, KeptRunsHaveTheirSecondsAndTheirTrainLoss) {
  auto kept = seed(0);
  kept.steps_per_epoch = 10;
  make("kept", kept);
  {
    std::ofstream metrics(folder_.path() / "kept" / "metrics.jsonl");
    for (int epoch = 0; epoch < 3; ++epoch) metrics << made_up_epoch(kept, epoch) << "\n";
  }
  const auto runs = all();
  const auto groups = groups_of(runs);
  EXPECT_DOUBLE_EQ(summaries_of(groups).at(0).seconds, 15.0);
  const auto loss = course_of(groups[0], Quantity::TrainLoss, Against::Epochs);
  ASSERT_EQ(loss.size(), 3U);
  EXPECT_DOUBLE_EQ(loss[1].x, 2.0);
  EXPECT_DOUBLE_EQ(loss[1].y, 1.0);
  EXPECT_TRUE(course_of(groups[0], Quantity::GradientNorm, Against::Epochs).empty());
}

TEST_F(RunGroupsTest, TheCourseOfSeedsIsTheirMeanAsFarAsAllCame) {
  make("s-0", seed(0, 0.70));
  auto shorter = seed(1, 0.70);
  shorter.epochs = 2;
  shorter.finished = false;
  make("s-1", shorter);
  const auto runs = all();
  const auto groups = groups_of(runs);
  const auto accuracy = course_of(groups.at(0), Quantity::TestAccuracy, Against::Epochs);
  ASSERT_EQ(accuracy.size(), 2U);
  EXPECT_DOUBLE_EQ(accuracy[1].x, 2.0);
  EXPECT_NEAR(accuracy[1].y, 65.0, 1e-9);  // 60 and 70
  EXPECT_NEAR(accuracy[1].error, 5.0, 1e-9);
  const auto loss = course_of(groups[0], Quantity::TrainLoss, Against::Seconds);
  ASSERT_EQ(loss.size(), 20U);
  EXPECT_DOUBLE_EQ(loss[3].y, 0.5);
  EXPECT_DOUBLE_EQ(loss[3].x, 2.0);
  EXPECT_DOUBLE_EQ(loss[3].error, 0.0);
}

TEST_F(RunGroupsTest, ALongCourseHasFourHundredPlaces) {
  auto run = seed(0);
  run.steps_per_epoch = 3000;
  make("long", run);
  const auto runs = all();
  const auto groups = groups_of(runs);
  const auto course = course_of(groups[0], Quantity::StepTime, Against::Epochs);
  EXPECT_EQ(course.size(), adaact::kMostPlaces);
  EXPECT_NEAR(course[200].y, 250.0, 1e-9);
}

}  // namespace
