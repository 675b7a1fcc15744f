#include "sweep/carry_out_sweep.h"

#include <csignal>
#include <fstream>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"
#include "sweep/sweep_page.h"

namespace {

using adaact::best_trials;
using adaact::carry_out_sweep;
using adaact::RunConfig;
using adaact::RunSettings;
using adaact::share_cores;
using adaact::SweepEvent;
using adaact::SweepPlan;
using adaact::SweepResult;
using adaact::SweepSettings;
using adaact::TrainingCallback;
using adaact::TrainingRun;
using adaact::TrialResult;
using adaact::TrialState;
using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::repeatable_metrics;
using adaact::testing::TemporaryFolder;
namespace fs = std::filesystem;

/// Trials of three epochs with four steps each.
SweepPlan plan_of_three_epochs() {
  SweepPlan plan;
  plan.base.dataset = "synthetic";
  plan.base.limit_train = 64;
  plan.base.limit_test = 40;
  plan.base.batch_size = 16;
  plan.base.epochs = 3;
  plan.base.threads = 1;
  plan.optimizers = {"sgd"};
  plan.learning_rates = {0.001, 0.03, 0.1};
  return plan;
}

SweepSettings without_halving(std::int64_t jobs = 1) {
  SweepSettings settings;
  settings.halving = false;
  settings.jobs = jobs;
  return settings;
}

class CarryOutSweepTest : public ::testing::Test {
 protected:
  SweepResult sweep(SweepPlan plan, const SweepSettings& settings = {}) const {
    plan.resolve();
    return carry_out_sweep(plan, folder(), settings);
  }
  fs::path folder() const { return folder_.path() / "sweep"; }

  /// The same configuration by itself, without a sweep.
  void expect_equal_to_run_alone(const TrialResult& result) const {
    const auto alone = folder_.path() / ("alone-" + result.trial.name);
    TrainingCallback silent;
    TrainingRun(result.trial.config, alone).run(silent);
    EXPECT_EQ(bytes_of(result.folder / "model.safetensors"), bytes_of(alone / "model.safetensors"));
    EXPECT_EQ(repeatable_metrics(result.folder), repeatable_metrics(alone));
  }

  TemporaryFolder folder_;
};

/// How many times a run was begun or gone on with.
std::size_t starts_of(const TrialResult& result) {
  return nlohmann::json::parse(bytes_of(result.folder / "environment.json")).size();
}

std::vector<TrialState> states_of(const SweepResult& result) {
  std::vector<TrialState> states;
  for (const auto& each : result.trials) states.push_back(each.state);
  return states;
}

TEST_F(CarryOutSweepTest, SeveralAtOnceComputeWhatEachComputesAlone) {
  auto plan = plan_of_three_epochs();
  plan.base.epochs = 1;
  plan.optimizers = {"adaact", "sgd", "kfac"};
  plan.learning_rates = {0.03, 0.1};
  const auto result = sweep(plan, without_halving(/*jobs=*/3));
  ASSERT_EQ(result.trials.size(), 6U);
  for (const auto& each : result.trials) {
    EXPECT_EQ(each.state, TrialState::Finished) << each.error;
    expect_equal_to_run_alone(each);
  }
}

TEST_F(CarryOutSweepTest, ATrialThatGoesOnEqualsOneThatWasNeverStopped) {
  SweepSettings settings;
  settings.jobs = 2;
  const auto result = sweep(plan_of_three_epochs(), settings);
  const auto best = best_trials(result.trials);
  ASSERT_EQ(best.size(), 1U);
  EXPECT_EQ(starts_of(best[0].result), 2U);
  expect_equal_to_run_alone(best[0].result);
}

TEST_F(CarryOutSweepTest, EachOptimizerKeepsItsBest) {
  auto plan = plan_of_three_epochs();
  plan.optimizers = {"sgd", "adaact"};
  const auto result = sweep(plan);
  for (const std::size_t first : {0U, 3U}) {
    std::size_t finished = 0;
    double best = 0.0;
    for (auto i = first; i < first + 3; ++i) {
      best = std::max(best, result.trials[i].accuracies.at(0));
    }
    for (auto i = first; i < first + 3; ++i) {
      const auto& each = result.trials[i];
      const bool goes_on = each.state == TrialState::Finished;
      finished += goes_on ? 1 : 0;
      if (goes_on) {
        EXPECT_EQ(each.accuracies.at(0), best);
      }
      EXPECT_EQ(each.accuracies.size(), goes_on ? 3U : 1U);
      if (!goes_on) {
        EXPECT_EQ(each.state, TrialState::StoppedEarly);
      }
    }
    EXPECT_EQ(finished, 1U);
  }
}

TEST_F(CarryOutSweepTest, WhatIsDoneIsNotDoneAgain) {
  const auto first = sweep(plan_of_three_epochs());
  std::vector<SweepEvent::Kind> kinds;
  SweepSettings settings;
  settings.on_event = [&](const SweepEvent& event) { kinds.push_back(event.kind); };
  const auto second = sweep(plan_of_three_epochs(), settings);
  EXPECT_EQ(states_of(second), states_of(first));
  EXPECT_EQ(kinds, std::vector<SweepEvent::Kind>(3, SweepEvent::Kind::IsThere));
}

TEST_F(CarryOutSweepTest, WithoutHalvingThoseThatWereStoppedGoOn) {
  sweep(plan_of_three_epochs());
  const auto result = sweep(plan_of_three_epochs(), without_halving());
  for (const auto& each : result.trials) {
    EXPECT_EQ(each.state, TrialState::Finished);
    expect_equal_to_run_alone(each);
  }
}

TEST_F(CarryOutSweepTest, ValuesMayBeAdded) {
  auto plan = plan_of_three_epochs();
  plan.learning_rates = {0.03};
  const auto first = sweep(plan);
  EXPECT_EQ(states_of(first), (std::vector<TrialState>{TrialState::Finished}));
  plan.learning_rates = {0.03, 0.1};
  plan.optimizers = {"sgd", "adam"};
  const auto second = sweep(plan);
  ASSERT_EQ(second.trials.size(), 4U);
  EXPECT_EQ(starts_of(second.trials[0]), 1U);
  EXPECT_EQ(adaact::read_sweep(folder()).size(), 4U);
}

TEST_F(CarryOutSweepTest, AnotherPlanIsRefusedAndNothingChanges) {
  auto plan = plan_of_three_epochs();
  plan.base.epochs = 1;
  sweep(plan);
  const auto before = bytes_of(folder() / "sweep.json");
  plan.base.epochs = 2;
  plan.learning_rates = {0.03};
  const auto error = error_of([&] { sweep(plan); });
  EXPECT_TRUE(contains(error, "epochs is 2, there it is 1"));
  EXPECT_TRUE(contains(error, "does not have 2 of the trials there: sgd-lr-0.001-wd-0.0005"));
  EXPECT_EQ(bytes_of(folder() / "sweep.json"), before);
}

TEST_F(CarryOutSweepTest, AFolderWithSomethingElseIsRefused) {
  fs::create_directories(folder());
  std::ofstream(folder() / "letter.txt") << "not a sweep";
  EXPECT_TRUE(contains(error_of([&] { sweep(plan_of_three_epochs()); }),
                       "holds something else than a sweep"));
}

TEST_F(CarryOutSweepTest, ATrialThatDivergesIsTheWorstAndNotTriedAgain) {
  auto plan = plan_of_three_epochs();
  plan.learning_rates = {1e30, 0.03, 0.1};
  for (int times = 0; times < 2; ++times) {
    const auto result = sweep(plan);
    EXPECT_EQ(result.trials[0].state, TrialState::Diverged);
    EXPECT_EQ(result.trials[0].diverged_in_epoch, 1);
    EXPECT_EQ(starts_of(result.trials[0]), 1U);
    EXPECT_EQ(best_trials(result.trials).size(), 1U);
    EXPECT_EQ(adaact::from_best_to_worst(result.trials).back().trial.learning_rate, 1e30);
  }
}

TEST_F(CarryOutSweepTest, AnErrorOfOneDoesNotEndTheOthersAndIsTriedAgain) {
  auto plan = plan_of_three_epochs();
  plan.base.epochs = 1;
  plan.base.limit_train = 16;
  plan.resolve();
  const auto names = adaact::trials_of(plan);
  fs::create_directories(folder());
  std::ofstream(folder() / "sweep.json") << plan.to_json();
  fs::create_directories(folder() / names[0].name);
  std::ofstream(folder() / names[0].name / "letter.txt") << "not a run";
  const auto first = sweep(plan);
  EXPECT_EQ(first.trials[0].state, TrialState::Failed);
  EXPECT_TRUE(contains(first.trials[0].error, "holds something else than a run"));
  EXPECT_EQ(first.trials[1].state, TrialState::Finished);
  fs::remove(folder() / names[0].name / "letter.txt");
  EXPECT_EQ(sweep(plan).trials[0].state, TrialState::Finished);
}

TEST_F(CarryOutSweepTest, DataThatAreNotThereAreFoundBeforeThereIsAFolder) {
  auto plan = plan_of_three_epochs();
  plan.base.dataset = "cifar10";
  plan.base.data_dir = (folder_.path() / "nowhere").string();
  EXPECT_TRUE(contains(error_of([&] { sweep(plan); }), "nowhere"));
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(CarryOutSweepTest, ASignalEndsAllAndTheSameGoesOn) {
  class Signal : public TrainingCallback {
   public:
    void on_step(const adaact::Trainer& /*trainer*/, const adaact::StepMetrics& metrics) override {
      if (metrics.step == 2) std::raise(SIGTERM);
    }
  };
  SweepSettings settings = without_halving();
  settings.make_callback = [](const adaact::Trial&) { return std::make_unique<Signal>(); };
  const auto first = sweep(plan_of_three_epochs(), settings);
  EXPECT_EQ(first.signal, SIGTERM);
  EXPECT_EQ(states_of(first), (std::vector<TrialState>{TrialState::Unfinished, TrialState::NotBegun,
                                                       TrialState::NotBegun}));
  const auto second = sweep(plan_of_three_epochs(), without_halving());
  EXPECT_EQ(second.signal, 0);
  expect_equal_to_run_alone(second.trials[0]);
}

TEST_F(CarryOutSweepTest, OneThatDrawsRandomNumbersIsTrainedAlone) {
  auto plan = plan_of_three_epochs();
  plan.base.drop_path = 0.1;
  EXPECT_TRUE(contains(error_of([&] { sweep(plan, without_halving(2)); }), "drop_path"));
  EXPECT_EQ(share_cores(plan.base, 9, 0, 4).jobs, 1);
}

TEST_F(CarryOutSweepTest, ThePageShowsAllTrialsAndMarksTheBest) {
  auto plan = plan_of_three_epochs();
  plan.learning_rates = {1e30, 0.001, 0.1};
  const auto result = sweep(plan);
  const auto page = folder_.path() / "page.html";
  adaact::write_sweep_page(result.trials, page, {});
  const auto html = bytes_of(page);
  for (const auto& each : result.trials) EXPECT_TRUE(contains(html, each.trial.name));
  EXPECT_TRUE(contains(html, "best of sgd: "));
  EXPECT_TRUE(contains(html, "diverged in epoch 1"));
  EXPECT_TRUE(contains(html, "stopped early"));
  EXPECT_TRUE(contains(html, "Test accuracy after epoch 1"));
  EXPECT_TRUE(fs::exists(folder_.path() / "page_figures" / "accuracy_by_rate.png"));
}

TEST(SharedCores, TrialsShareThemEvenly) {
  RunConfig config;
  const auto expect_shared = [&](std::size_t trials, std::int64_t jobs, std::int64_t cores,
                                 std::int64_t expected_jobs, std::int64_t expected_threads) {
    const auto shared = share_cores(config, trials, jobs, cores);
    EXPECT_EQ(shared.jobs, expected_jobs);
    EXPECT_EQ(shared.threads, expected_threads);
  };
  expect_shared(9, 0, 2, 2, 1);
  expect_shared(9, 0, 64, 9, 7);
  expect_shared(100, 0, 64, 16, 4);
  expect_shared(9, 1, 8, 1, 8);
  expect_shared(1, 0, 8, 1, 8);
  config.threads = 2;  // as given: so many at once as there is room for
  expect_shared(9, 0, 8, 4, 2);
  expect_shared(9, 0, 1, 1, 2);
  expect_shared(9, 3, 8, 3, 2);
}

/// Trials that nobody trained.
TrialResult made_up_trial(const std::string& optimizer, double rate, TrialState state,
                          std::vector<double> accuracies) {
  TrialResult result;
  result.trial.config.optimizer = optimizer;
  result.trial.learning_rate = rate;
  result.state = state;
  result.accuracies = std::move(accuracies);
  return result;
}

TEST(TrialResult, TheBestIsFinishedAndAtTheEdgeItSaysSo) {
  const std::vector<TrialResult> trials{
      made_up_trial("sgd", 0.1, TrialState::Finished, {0.5, 0.7}),
      made_up_trial("sgd", 0.3, TrialState::Finished, {0.6, 0.8}),
      made_up_trial("sgd", 0.03, TrialState::StoppedEarly, {0.9}),
      made_up_trial("adam", 0.1, TrialState::Diverged, {0.9}),
      made_up_trial("adam", 0.01, TrialState::Finished, {0.1, 0.2}),
      made_up_trial("adam", 0.001, TrialState::Failed, {}),
      made_up_trial("lamb", 0.1, TrialState::Finished, {0.1, 0.9})};
  const auto best = best_trials(trials);
  ASSERT_EQ(best.size(), 3U);
  EXPECT_EQ(best[0].result.trial.learning_rate, 0.3);
  EXPECT_EQ(remark_on(best[0]), "the greatest rate tried: try greater ones");
  EXPECT_EQ(best[1].result.trial.learning_rate, 0.01);
  EXPECT_EQ(remark_on(best[1]), "");
  EXPECT_EQ(remark_on(best[2]), "");  // one rate is no edge
  const auto sorted = adaact::from_best_to_worst(trials);
  std::vector<double> accuracies;
  for (const auto& each : sorted) accuracies.push_back(each.accuracy().value_or(-1.0));
  EXPECT_EQ(accuracies, (std::vector<double>{0.9, 0.8, 0.7, 0.2, 0.9, 0.9, -1.0}));
}

}  // namespace
