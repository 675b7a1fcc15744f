#include "experiments/shelf/run_shelf.h"

#include <fstream>
#include <map>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "experiments/shelf/kept_results.h"
#include "experiments/shelf/measurement_files.h"
#include "experiments/shelf/run_key.h"
#include "support/errors.h"
#include "support/made_up_run.h"
#include "support/odd_files.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace {

using adaact::ExperimentPlan;
using adaact::Found;
using adaact::Measured;
using adaact::PlannedMeasurement;
using adaact::PlannedRun;
using adaact::RunShelf;
using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::deep_json;
using adaact::testing::diverged_run;
using adaact::testing::error_of;
using adaact::testing::made_up_config;
using adaact::testing::MadeUpRun;
using adaact::testing::make_pipe;
using adaact::testing::metrics_of;
using adaact::testing::TemporaryFolder;
using adaact::testing::write_run;
namespace fs = std::filesystem;

PlannedRun planned_with_seed(std::uint64_t seed) {
  PlannedRun planned;
  planned.series = "AdaAct";
  planned.config = made_up_config();
  planned.config.seed = seed;
  return planned;
}

/// A planned run as it was finished on another machine.
MadeUpRun run_of(const PlannedRun& planned) {
  MadeUpRun run;
  run.config = planned.config;
  run.config.precision = "bf16";
  run.config.data_dir = "/where/the/data/were";
  return run;
}

PlannedMeasurement some_measurement() {
  PlannedMeasurement planned;
  planned.series = "rate";
  planned.setting = {{"steps", 100}};
  return planned;
}

Measured some_numbers() {
  return {{{"slope", -0.5}}, {{"errors", torch::tensor({1.0, 0.5, 0.25})}}};
}

class RunShelfTest : public ::testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder_.path() / name; }
  RunShelf shelf() const { return RunShelf({folder_.path()}); }

  TemporaryFolder folder_;
};

TEST_F(RunShelfTest, FindsFinishedRunsWhereverTheyAre) {
  write_run(at("deep/down/here"), run_of(planned_with_seed(1)));
  auto all = shelf();
  const auto found = all.find(planned_with_seed(1));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].folder, at("deep/down/here"));
  EXPECT_EQ(found[0].epochs.size(), 3U);
  EXPECT_TRUE(found[0].steps.empty());
  EXPECT_TRUE(all.find(planned_with_seed(2)).empty());
  EXPECT_TRUE(all.messages().empty());
}

TEST_F(RunShelfTest, LeavesOutWhatIsNotFinished) {
  auto run = run_of(planned_with_seed(1));
  run.config.epochs = 5;
  run.finished = false;
  write_run(at("run"), run);
  auto planned = planned_with_seed(1);
  planned.config.epochs = 5;
  EXPECT_TRUE(shelf().find(planned).empty());
}

TEST_F(RunShelfTest, LeavesOutAModelWhoseEpochsAreNotAllThere) {
  auto run = run_of(planned_with_seed(1));
  run.config.epochs = 5;  // three are written
  write_run(at("run"), run);
  auto planned = planned_with_seed(1);
  planned.config.epochs = 5;
  EXPECT_TRUE(shelf().find(planned).empty());
}

TEST_F(RunShelfTest, FindsRunsThatDiverged) {
  write_run(at("early"), diverged_run(planned_with_seed(1).config, 0));
  write_run(at("late"), diverged_run(planned_with_seed(2).config, 2));
  EXPECT_TRUE(shelf().find(planned_with_seed(1)).front().divergence);
  EXPECT_EQ(shelf().find(planned_with_seed(2)).front().epochs.size(), 2U);
}

TEST_F(RunShelfTest, OfARunThatDivergedVariancesAreNeededInTheEpochsThatAreThere) {
  auto early = planned_with_seed(1);
  auto late = planned_with_seed(2);
  write_run(at("early"), diverged_run(early.config, 0));
  write_run(at("late"), diverged_run(late.config, 2));
  early.activation_variances = true;
  late.activation_variances = true;
  EXPECT_FALSE(shelf().find(early).empty()) << "it would have none either if it were trained again";
  EXPECT_TRUE(shelf().find(late).empty());
}

TEST_F(RunShelfTest, LooksBelowAFolderOfSomethingElse) {
  fs::create_directories(at("project"));
  std::ofstream(at("project") / "config.json") << R"({"compiler": "cc"})";
  write_run(at("project/runs/first"), run_of(planned_with_seed(1)));
  EXPECT_FALSE(shelf().find(planned_with_seed(1)).empty());
}

TEST_F(RunShelfTest, LeavesOutWhatIsDamagedOrForeignAndSaysSo) {
  write_run(at("a-damaged"), run_of(planned_with_seed(1)));
  std::ofstream(at("a-damaged") / "metrics.jsonl") << "no JSON\n{}\n";
  write_run(at("b-whole"), run_of(planned_with_seed(1)));
  fs::create_directories(at("foreign"));
  std::ofstream(at("foreign") / "config.json") << R"({"compiler": "cc"})";
  fs::create_directories(at("measured"));
  std::ofstream(at("measured") / "setting.json") << "{";
  auto all = shelf();
  EXPECT_EQ(all.find(planned_with_seed(1)).front().folder, at("b-whole"));
  EXPECT_FALSE(all.find(planned_with_seed(1)).empty());
  ASSERT_EQ(all.messages().size(), 3U);
  EXPECT_TRUE(contains(all.messages()[0], at("foreign").string() + " is left out: "));
  EXPECT_TRUE(contains(all.messages()[1], "measured is left out: "));
  EXPECT_TRUE(contains(all.messages()[2], "a-damaged is left out: "));
}

/// Runs of one seed, each with its own accuracy.
void write_repeated_runs(const std::map<fs::path, double>& top1_of_folder) {
  for (const auto& [folder, top1] : top1_of_folder) {
    auto run = run_of(planned_with_seed(1));
    run.top1_of_last_epoch = top1;
    write_run(folder, run);
  }
}

TEST_F(RunShelfTest, FindsAllRunsOfASeedByPath) {
  write_repeated_runs({{at("c"), 0.5}, {at("a"), 0.6}, {at("b"), 0.7}});
  const auto found = shelf().find(planned_with_seed(1));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].folder, at("a"));
  EXPECT_EQ(found[2].folder, at("c"));
  RunShelf in_order({at("c"), at("b")});
  EXPECT_EQ(in_order.find(planned_with_seed(1)).front().folder, at("c"));
}

TEST_F(RunShelfTest, ACopyOrARepetitionToTheBitIsNoFurtherRun) {
  write_repeated_runs({{at("a"), 0.5}, {at("copy"), 0.5}, {at("other"), 0.6}});
  const auto found = shelf().find(planned_with_seed(1));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].folder, at("other"));
}

TEST_F(RunShelfTest, AMeanIsOfAllSeedsThatAreThereUnlessSeedsAreNamed) {
  write_repeated_runs({{at("a"), 0.5}, {at("b"), 0.6}});
  write_run(at("unplanned"), run_of(planned_with_seed(11)));
  auto other_setting = run_of(planned_with_seed(1));
  other_setting.config.batch_size = 64;
  write_run(at("other-setting"), other_setting);
  ExperimentPlan plan;
  plan.runs = {planned_with_seed(1), planned_with_seed(2)};
  const auto all = shelf().find_all(plan, adaact::SeedsThatCount::All);
  ASSERT_EQ(all.runs.size(), 4U);
  EXPECT_EQ(all.runs[1].history.value().folder, at("b"));
  EXPECT_FALSE(all.runs[2].history) << "seed 2 is still to be trained";
  EXPECT_EQ(all.runs[3].history.value().folder, at("unplanned"));
  EXPECT_EQ(all.runs[3].planned.config.seed, 11U);
  EXPECT_EQ(shelf().find_all(plan).runs.size(), 3U);
}

TEST_F(RunShelfTest, WhereVariancesAreNeededARunWithoutThemWillNotDo) {
  auto planned = planned_with_seed(1);
  write_run(at("run"), run_of(planned));
  planned.activation_variances = true;
  EXPECT_TRUE(shelf().find(planned).empty());
}

TEST_F(RunShelfTest, KnowsWhereTheModelIs) {
  write_run(at("a"), run_of(planned_with_seed(1)));
  write_run(at("b"), run_of(planned_with_seed(1)));
  fs::remove(at("a") / "model.safetensors");
  EXPECT_EQ(shelf().find_model(planned_with_seed(1)), at("b") / "model.safetensors");
  EXPECT_EQ(shelf().find_model(planned_with_seed(2)), fs::path());
}

TEST_F(RunShelfTest, BesideAFinishedRunThoseOfItsSeedThatDivergedDoNotCount) {
  const auto planned = planned_with_seed(1);
  write_run(at("a-bf16"), diverged_run(planned.config, 0));
  write_run(at("b-fp32"), run_of(planned));
  write_run(at("c-tf32"), diverged_run(planned.config, 0));
  auto all = shelf();
  const auto found = all.find(planned);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].folder, at("b-fp32"));
}

TEST_F(RunShelfTest, LeavesOutMeasurementsThatLackANumber) {
  write_measurement(at("measurements/old"), some_measurement(), some_numbers());
  auto planned = some_measurement();
  planned.needed_values = {"measured_since"};
  auto all = shelf();
  EXPECT_FALSE(all.find(planned));
  ASSERT_EQ(all.messages().size(), 1U);
  EXPECT_TRUE(contains(all.messages()[0], "old is left out: it lacks 'measured_since'"))
      << all.messages()[0];
}

TEST_F(RunShelfTest, LeavesOutMeasurementsThatCannotBeUnderstood) {
  write_measurement(at("other"), some_measurement(), some_numbers());
  auto planned = some_measurement();
  planned.check = [](const Measured& measured) {
    TORCH_CHECK(measured.values.at("slope") > 0, "slope is ", measured.values.at("slope").dump(),
                ", expected > 0");
  };
  auto all = shelf();
  EXPECT_FALSE(all.find(planned));
  ASSERT_EQ(all.messages().size(), 1U);
  EXPECT_TRUE(contains(all.messages()[0],
                       "other is left out: it cannot be understood: slope is -0.5, expected > 0"));
}

TEST_F(RunShelfTest, LeavesOutMeasurementFilesOfStrangers) {
  for (const char* name : {"a-deep", "b-list", "c-pipe", "d-setting", "e-pipe"}) {
    write_measurement(at(name), some_measurement(), some_numbers());
  }
  std::ofstream(at("a-deep") / "measurement.json") << "{\"slope\":" << deep_json() << "}";
  std::ofstream(at("b-list") / "measurement.json") << "[1, 2]";
  make_pipe(at("c-pipe") / "measurement.json");
  std::ofstream(at("d-setting") / "setting.json") << "{\"setting\":" << deep_json() << "}";
  make_pipe(at("e-pipe") / "setting.json");
  auto all = shelf();
  EXPECT_FALSE(all.find(some_measurement()));
  ASSERT_EQ(all.messages().size(), 5U);
  EXPECT_TRUE(contains(all.messages()[0], "setting.json is no JSON: it is nested deeper than"));
  EXPECT_TRUE(contains(all.messages()[1], "setting.json is a pipe"));
  EXPECT_TRUE(contains(all.messages()[2], "measurement.json is no JSON: it is nested deeper"));
  EXPECT_TRUE(contains(all.messages()[3], "measurement.json is damaged: expected a JSON object"));
  EXPECT_TRUE(contains(all.messages()[4], "measurement.json is a pipe"));
}

TEST_F(RunShelfTest, FindsMeasurements) {
  write_measurement(at("measurements/rate"), some_measurement(), some_numbers());
  auto all = shelf();
  const auto found = all.find(some_measurement());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->values.at("slope"), -0.5);
  EXPECT_TRUE(found->tensors.at("errors").equal(some_numbers().tensors.at("errors")));
  auto other = some_measurement();
  other.setting["steps"] = 200;
  EXPECT_FALSE(all.find(other));
}

TEST_F(RunShelfTest, FindsAWholePlanInItsOrder) {
  write_run(at("run"), run_of(planned_with_seed(2)));
  ExperimentPlan plan;
  plan.runs = {planned_with_seed(1), planned_with_seed(2)};
  plan.measurements = {some_measurement()};
  const auto found = shelf().find_all(plan);
  ASSERT_EQ(found.runs.size(), 2U);
  EXPECT_FALSE(found.runs[0].history);
  EXPECT_TRUE(found.runs[1].history);
  EXPECT_FALSE(found.measurements.at(0).measured);
  EXPECT_FALSE(found.is_empty());
  EXPECT_FALSE(found.is_complete());
}

TEST_F(RunShelfTest, AFolderThatIsNotThereIsAnError) {
  EXPECT_TRUE(contains(error_of([&] { RunShelf({at("nothing")}); }),
                       "there is no folder " + at("nothing").string()));
}

class KeptResultsTest : public RunShelfTest {
 protected:
  void SetUp() override {
    auto run = run_of(planned_with_seed(1));
    run.config.epochs = run.epochs;
    planned_.config = run.config;
    write_run(at("out/run"), run);
    std::ofstream(at("out/run") / "environment.json") << "[]";
    write_measurement(at("out/rate"), some_measurement(), some_numbers());
    plan_.runs = {planned_};
    plan_.measurements = {some_measurement()};
  }
  Found found_in(const std::string& name) const { return RunShelf({at(name)}).find_all(plan_); }
  fs::path kept_run() const { return at("results") / kept_path(planned_); }

  PlannedRun planned_;
  ExperimentPlan plan_;
};

TEST_F(KeptResultsTest, AreSmallAndFoundAgain) {
  EXPECT_TRUE(keep(found_in("out"), at("results")).empty());
  EXPECT_TRUE(found_in("results").is_complete());
  EXPECT_FALSE(fs::exists(kept_run() / "model.safetensors"));
  EXPECT_EQ(bytes_of(kept_run() / "environment.json"), "[]");
  EXPECT_EQ(metrics_of(kept_run()).size(), 3U);  // of 30 steps and 3 epochs
  EXPECT_EQ(adaact::RunConfig::read(kept_run() / "config.json").data_dir, "");
}

TEST_F(KeptResultsTest, KeepsARunThatDivergedBeforeItsFirstEpoch) {
  write_run(at("out/run"), diverged_run(planned_.config, 0));
  fs::remove(at("out/run") / "model.safetensors");  // of the run that was there
  EXPECT_TRUE(keep(found_in("out"), at("results")).empty());
  const auto records = metrics_of(kept_run());
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].at("kind"), "diverged");
  EXPECT_TRUE(found_in("results").runs[0].history.value().divergence);
  EXPECT_TRUE(keep(found_in("out"), at("results")).empty()) << "the same again";
}

TEST_F(KeptResultsTest, KeepingTheSameAgainChangesNothing) {
  keep(found_in("out"), at("results"));
  EXPECT_TRUE(keep(found_in("out"), at("results")).empty());
  EXPECT_TRUE(keep(found_in("results"), at("results")).empty());
}

TEST_F(KeptResultsTest, TheSameRunIsNoRepetitionHoweverAnotherVersionWroteIt) {
  keep(found_in("out"), at("results"));
  std::ofstream(kept_run() / "environment.json") << R"([{"adaact": "0.0.1"}])";
  auto config = nlohmann::ordered_json::parse(bytes_of(kept_run() / "config.json"));
  config.erase("patience");
  std::ofstream(kept_run() / "config.json") << config.dump(4);
  const auto before = bytes_of(kept_run() / "config.json");
  EXPECT_TRUE(keep(found_in("out"), at("results")).empty());
  EXPECT_EQ(bytes_of(kept_run() / "config.json"), before);
  EXPECT_FALSE(fs::exists(kept_run().string() + "-2"));
}

TEST_F(KeptResultsTest, AFolderThatCannotBeReadStaysAsItIs) {
  keep(found_in("out"), at("results"));
  std::ofstream(kept_run() / "metrics.jsonl") << "no JSON\n{}\n";
  EXPECT_TRUE(keep(found_in("out"), at("results")).empty());
  EXPECT_EQ(bytes_of(kept_run() / "metrics.jsonl"), "no JSON\n{}\n");
  EXPECT_TRUE(fs::exists(kept_run().string() + "-2/config.json"));
}

TEST_F(KeptResultsTest, ARepeatedRunIsKeptBesideTheFirst) {
  keep(found_in("out"), at("results"));
  const auto before = bytes_of(kept_run() / "metrics.jsonl");
  auto better = run_of(planned_);
  better.config.epochs = better.epochs;
  better.top1_of_last_epoch = 0.9;
  write_run(at("out/run"), better);
  EXPECT_TRUE(keep(found_in("out"), at("results")).empty());
  EXPECT_TRUE(keep(found_in("out"), at("results")).empty()) << "the same again";
  EXPECT_EQ(bytes_of(kept_run() / "metrics.jsonl"), before);
  EXPECT_EQ(found_in("results").runs.size(), 2U);
  EXPECT_TRUE(fs::exists(kept_run().string() + "-2/config.json"));
  EXPECT_FALSE(fs::exists(kept_run().string() + "-3"));
}

TEST_F(KeptResultsTest, AMeasurementThatIsThereAndDiffersStays) {
  keep(found_in("out"), at("results"));
  auto other_numbers = some_numbers();
  other_numbers.tensors["errors"][0] = 2.0;
  write_measurement(at("out/rate"), some_measurement(), other_numbers);
  const auto messages = keep(found_in("out"), at("results"));
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_TRUE(contains(messages[0], "holds another result, which is left as it is"));
}

TEST_F(KeptResultsTest, AMeasurementThatLacksANumberGivesWay) {
  keep(found_in("out"), at("results"));
  plan_.measurements[0].needed_values = {"measured_since"};
  EXPECT_FALSE(found_in("results").measurements[0].measured);
  auto newer = some_numbers();
  newer.values["measured_since"] = 1;
  write_measurement(at("out/rate"), plan_.measurements[0], newer);
  EXPECT_TRUE(keep(found_in("out"), at("results")).empty());
  EXPECT_TRUE(found_in("results").measurements[0].measured);
}

TEST_F(RunShelfTest, WhatIsKeptAlreadyIsNotKeptAgainUnderAnotherName) {
  write_run(at("results/by-hand"), run_of(planned_with_seed(1)));
  RunShelf results({at("results")});
  ExperimentPlan plan;
  plan.runs = {planned_with_seed(1)};
  EXPECT_TRUE(keep(results.find_all(plan), at("results")).empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(at("results")), fs::directory_iterator()), 1);
}

}  // namespace
