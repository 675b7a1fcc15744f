#include "experiments/shelf/carry_out.h"

#include <csignal>
#include <fstream>

#include <adaact/train/training_run.h>
#include <gtest/gtest.h>

#include "experiments/shelf/kept_results.h"
#include "experiments/shelf/run_key.h"
#include "support/errors.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace {

using adaact::carry_out;
using adaact::CarryOutOptions;
using adaact::CarryOutResult;
using adaact::ExperimentPlan;
using adaact::Found;
using adaact::Machine;
using adaact::Measured;
using adaact::PlannedMeasurement;
using adaact::PlannedRun;
using adaact::RunShelf;
using adaact::StepMetrics;
using adaact::TrainingCallback;
using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::TemporaryFolder;
namespace fs = std::filesystem;

/// Two epochs of three steps on made-up images.
PlannedRun small_run(std::uint64_t seed) {
  PlannedRun run;
  run.series = "AdaAct";
  run.config.dataset = "synthetic";
  run.config.limit_train = 48;
  run.config.limit_test = 16;
  run.config.batch_size = 16;
  run.config.epochs = 2;
  run.config.seed = seed;
  return run;
}

/// Measures how large the model of a run is.
PlannedMeasurement size_of_model(const PlannedRun& run) {
  PlannedMeasurement measurement;
  measurement.series = "size";
  measurement.setting = {{"unit", "bytes"}};
  measurement.of_run = run;
  measurement.measure = [](const Machine& /*machine*/, const fs::path& model,
                           const std::function<void(const std::string&)>& progress) {
    progress("weighing");
    return Measured{{{"bytes", fs::file_size(model)}}, {}};
  };
  return measurement;
}

/// Sends this process a signal after a step.
class SignalAt : public TrainingCallback {
 public:
  explicit SignalAt(std::int64_t step) : step_(step) {}
  void on_step(const adaact::Trainer& /*trainer*/, const StepMetrics& metrics) override {
    if (metrics.step == step_) std::raise(SIGTERM);
  }

 private:
  std::int64_t step_;
};

class CarryOutTest : public ::testing::Test {
 protected:
  CarryOutTest() {
    options_.machine.threads = 1;
    options_.folder = at("out");
    options_.on_progress = [this](const std::string& line) { progress_.push_back(line); };
    options_.on_message = [this](const std::string& line) { messages_.push_back(line); };
    fs::create_directories(at("out"));
  }

  fs::path at(const std::string& name) const { return folder_.path() / name; }
  fs::path run_folder(const PlannedRun& run) const { return at("out/runs") / folder_name(run); }
  CarryOutResult carry_out_here(const ExperimentPlan& plan) {
    RunShelf shelf({at("out")});
    return carry_out(plan, shelf, options_);
  }
  Found found_here(const ExperimentPlan& plan) const {
    return RunShelf({at("out")}).find_all(plan);
  }

  TemporaryFolder folder_;
  CarryOutOptions options_;
  std::vector<std::string> progress_;
  std::vector<std::string> messages_;
};

TEST_F(CarryOutTest, TrainsAndMeasuresWhatIsMissing) {
  ExperimentPlan plan;
  plan.runs = {small_run(0), small_run(1)};
  plan.measurements = {size_of_model(small_run(0))};
  EXPECT_TRUE(carry_out_here(plan).failures.empty());
  const auto found = found_here(plan);
  EXPECT_TRUE(found.is_complete());
  EXPECT_EQ(found.measurements[0].measured->values.at("bytes"),
            fs::file_size(run_folder(small_run(0)) / "model.safetensors"));
  EXPECT_EQ(progress_.size(), 4U);  // three pieces of work and a word of the measurement
  EXPECT_TRUE(contains(progress_[0], "1 of 3: AdaAct, " + folder_name(small_run(0))));
}

TEST_F(CarryOutTest, DoesNothingTwice) {
  ExperimentPlan plan;
  plan.runs = {small_run(0)};
  plan.measurements = {size_of_model(small_run(0))};
  carry_out_here(plan);
  progress_.clear();
  carry_out_here(plan);
  EXPECT_TRUE(progress_.empty());
}

TEST_F(CarryOutTest, GoesOnAfterASignal) {
  ExperimentPlan plan;
  plan.runs = {small_run(0), small_run(1)};
  options_.make_callback = [] { return std::make_unique<SignalAt>(5); };
  EXPECT_EQ(carry_out_here(plan).signal, SIGTERM);
  EXPECT_TRUE(found_here(plan).is_empty());
  EXPECT_FALSE(fs::exists(run_folder(small_run(1)))) << "the second was not begun";

  options_.make_callback = [] { return std::make_unique<TrainingCallback>(); };
  EXPECT_EQ(carry_out_here(plan).signal, 0);
  EXPECT_TRUE(found_here(plan).is_complete());

  options_.folder = at("uninterrupted");
  RunShelf nothing({});
  carry_out(plan, nothing, options_);
  EXPECT_EQ(bytes_of(run_folder(small_run(0)) / "model.safetensors"),
            bytes_of(at("uninterrupted/runs") / folder_name(small_run(0)) / "model.safetensors"));
}

TEST_F(CarryOutTest, GoesOnWithTheThreadsThatARunWasBegunWith) {
  ExperimentPlan plan;
  plan.runs = {small_run(0)};
  options_.make_callback = [] { return std::make_unique<SignalAt>(2); };
  EXPECT_EQ(carry_out_here(plan).signal, SIGTERM);
  options_.make_callback = [] { return std::make_unique<TrainingCallback>(); };
  options_.machine.threads = 2;
  EXPECT_TRUE(carry_out_here(plan).failures.empty());
  EXPECT_TRUE(fs::exists(run_folder(small_run(0)) / "model.safetensors"));
}

TEST_F(CarryOutTest, RunsAreCarriedOutAsTheMachineSays) {
  ExperimentPlan plan;
  plan.runs = {small_run(0)};
  options_.machine.workers = 2;
  options_.machine.image_work = "gpu";  // of no effect on the CPU
  EXPECT_TRUE(carry_out_here(plan).failures.empty());
  const auto settings = adaact::RunSettings::read(run_folder(small_run(0)) / "config.json");
  EXPECT_EQ(settings.workers, 2);
  EXPECT_EQ(settings.image_work, "gpu");
}

TEST_F(CarryOutTest, ADataSetThatIsNotThereIsFoundBeforeMeasuring) {
  auto measurement = size_of_model(small_run(0));
  measurement.of_run.reset();
  measurement.setting["dataset"] = "cifar10";
  ExperimentPlan plan;
  plan.measurements = {measurement};
  options_.machine.data_dirs["cifar10"] = at("nothing").string();
  EXPECT_TRUE(contains(error_of([&] { carry_out_here(plan); }), "nothing"));
  EXPECT_TRUE(progress_.empty());
}

TEST_F(CarryOutTest, ARunThatFailsDoesNotEndTheOthers) {
  ExperimentPlan plan;
  plan.runs = {small_run(0), small_run(1)};
  fs::create_directories(run_folder(small_run(0)));
  std::ofstream(run_folder(small_run(0)) / "thesis.txt") << "something else";
  const auto result = carry_out_here(plan);
  ASSERT_EQ(result.failures.size(), 1U);
  EXPECT_TRUE(contains(result.failures[0], folder_name(small_run(0)) + ": "));
  EXPECT_TRUE(contains(result.failures[0], "holds something else than a run"));
  EXPECT_TRUE(found_here(plan).runs[1].history);
}

/// Its second step has a gradient that is not finite.
PlannedRun diverging_run() {
  auto run = small_run(0);
  run.series = "SGD";
  run.config.optimizer = "sgd";
  run.config.optimizer_options = R"({"lr": 1e30})";
  return run;
}

TEST_F(CarryOutTest, ARunThatDivergesIsAResult) {
  ExperimentPlan plan;
  plan.runs = {diverging_run(), small_run(1)};
  EXPECT_TRUE(carry_out_here(plan).failures.empty());
  const auto found = found_here(plan);
  EXPECT_TRUE(found.is_complete());
  EXPECT_TRUE(found.runs[0].history.value().divergence);
  EXPECT_FALSE(found.runs[1].history.value().divergence);
  ASSERT_EQ(progress_.size(), 3U);
  EXPECT_TRUE(contains(progress_[1], "diverged in epoch 1: SGD: the gradient of '"));

  progress_.clear();
  EXPECT_TRUE(carry_out_here(plan).failures.empty());
  EXPECT_TRUE(progress_.empty()) << "it is not trained again";
}

TEST_F(CarryOutTest, AModelOfARunThatDivergedIsNotTrainedFor) {
  ExperimentPlan plan;
  plan.runs = {diverging_run()};
  carry_out_here(plan);
  progress_.clear();
  plan.measurements = {size_of_model(diverging_run())};
  const auto result = carry_out_here(plan);
  ASSERT_EQ(result.failures.size(), 1U);
  EXPECT_TRUE(contains(result.failures[0], "the run that it is of has no model"));
  EXPECT_EQ(progress_.size(), 1U) << "the measurement alone";
}

TEST_F(CarryOutTest, AMeasurementThatFailsIsTold) {
  ExperimentPlan plan;
  plan.measurements = {size_of_model(small_run(0))};
  plan.measurements[0].of_run.reset();
  const auto result = carry_out_here(plan);  // of a file without a name
  ASSERT_EQ(result.failures.size(), 1U);
  EXPECT_TRUE(contains(result.failures[0], folder_name(plan.measurements[0]) + ": "));
}

TEST_F(CarryOutTest, AModelThatWasNotKeptIsTrainedAgain) {
  ExperimentPlan plan;
  plan.runs = {small_run(0)};
  carry_out_here(plan);
  keep(found_here(plan), at("results"));
  plan.measurements = {size_of_model(small_run(0))};
  RunShelf results({at("results")});
  options_.folder = at("elsewhere");
  EXPECT_TRUE(carry_out(plan, results, options_).failures.empty());
  ASSERT_EQ(messages_.size(), 1U);
  EXPECT_TRUE(contains(messages_[0], "is there without its model, which is needed: trained again"));
  EXPECT_TRUE(RunShelf({at("elsewhere")}).find(plan.measurements[0]));
}

TEST_F(CarryOutTest, WhatCannotBeDoneIsRefusedBeforeAnyWork) {
  ExperimentPlan plan;
  plan.runs = {small_run(0), small_run(1)};
  plan.runs[1].config.dataset = "cifar10";
  options_.machine.data_dirs["cifar10"] = at("nowhere").string();
  EXPECT_TRUE(contains(error_of([&] { carry_out_here(plan); }), "nowhere"));
  EXPECT_TRUE(progress_.empty());
  plan.runs.pop_back();
  plan.wanted_data = "a thousand classes";
  plan.wanted_classes = 1000;
  EXPECT_TRUE(contains(error_of([&] { carry_out_here(plan); }),
                       "has 10 classes, expected 1000: a thousand classes"));
  EXPECT_TRUE(progress_.empty());
  plan.obstacle = "there is no time";
  EXPECT_TRUE(contains(error_of([&] { carry_out_here(plan); }),
                       "this cannot be carried out: there is no time"));
}

}  // namespace
