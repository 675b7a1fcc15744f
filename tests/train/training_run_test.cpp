#include <adaact/train/training_run.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <thread>

#include <adaact/io/safetensors.h>
#include <adaact/optim/non_finite.h>
#include <adaact/train/classifier.h>
#include <adaact/train/evaluate_weights.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/image_files.h"
#include "support/errors.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace {

using adaact::RunConfig;
using adaact::RunResult;
using adaact::RunSettings;
using adaact::StepMetrics;
using adaact::TrainingCallback;
using adaact::TrainingRun;
using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::metrics_of;
using adaact::testing::repeatable_metrics;
using adaact::testing::TemporaryFolder;
using nlohmann::json;
namespace fs = std::filesystem;

/// Six steps an epoch, the last one partial.
RunConfig small_config() {
  RunConfig config;
  config.model = "lenet5";
  config.dataset = "synthetic";
  config.limit_train = 90;
  config.limit_test = 40;
  config.batch_size = 16;
  config.epochs = 3;
  config.threads = 1;
  return config;
}

class TrainingRunTest : public ::testing::Test {
 protected:
  RunResult train(const RunConfig& config, const std::string& name, TrainingCallback& callback,
                  const RunSettings& settings = {}) {
    return TrainingRun(config, folder_.path() / name, settings).run(callback);
  }
  RunResult train(const RunConfig& config, const std::string& name,
                  const RunSettings& settings = {}) {
    TrainingCallback silent;
    return train(config, name, silent, settings);
  }
  fs::path at(const std::string& name) const { return folder_.path() / name; }

  TemporaryFolder folder_;
};

/// Sends this process a signal after a step.
class SignalAt : public TrainingCallback {
 public:
  SignalAt(std::int64_t step, int signal) : step_(step), signal_(signal) {}
  void on_step(const adaact::Trainer& /*trainer*/, const StepMetrics& metrics) override {
    if (metrics.step == step_) std::raise(signal_);
  }

 private:
  std::int64_t step_;
  int signal_;
};

RunSettings resuming() {
  RunSettings settings;
  settings.resume = true;
  return settings;
}

TEST_F(TrainingRunTest, LeavesAWholeFolder) {
  EXPECT_EQ(train(small_config(), "run").status, RunResult::Status::Finished);
  const auto last = metrics_of(at("run")).back();
  EXPECT_EQ(last["kind"], "epoch");
  EXPECT_EQ(last["step"], 18);
  EXPECT_EQ(last["second_moments"].size(), 5U);  // layers of LeNet-5
  for (const char* name : {"config.json", "metrics.jsonl", "model.safetensors"}) {
    EXPECT_TRUE(fs::exists(at("run") / name)) << name;
  }
  const auto model = adaact::TensorFile::read(at("run") / "model.safetensors",
                                              adaact::TensorFile::Checksum::Required);
  EXPECT_EQ(json::parse(model.metadata.at("classes")).size(), 10U);
  std::vector<std::int64_t> steps;
  for (const auto& line : metrics_of(at("run"))) {
    if (line["kind"] == "step") steps.push_back(line["step"]);
  }
  ASSERT_EQ(steps.size(), 18U);
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i], static_cast<int>(i) + 1);
}

TEST_F(TrainingRunTest, NotesWhereItWasCarriedOut) {
  SignalAt signal(4, SIGINT);
  train(small_config(), "run", signal);
  train(small_config(), "run", resuming());
  const auto environments = json::parse(bytes_of(at("run") / "environment.json"));
  ASSERT_EQ(environments.size(), 2U);
  for (const char* fact : {"started", "adaact", "libtorch", "compiler", "processor"}) {
    EXPECT_FALSE(environments[1].at(fact).get<std::string>().empty()) << fact;
  }
}

TEST_F(TrainingRunTest, ActivationVariancesAreRecordedAndResumeBitForBit) {
  RunSettings settings;
  settings.activation_variances = true;
  settings.checkpoint_every = 2;
  train(small_config(), "whole", settings);
  const auto last = metrics_of(at("whole")).back();
  EXPECT_EQ(last["activation_variances"].size(), 5U);
  EXPECT_GT(last["activation_variances"]["fc1.weight"]["mean"].get<double>(), 0.0);

  SignalAt signal(9, SIGINT);
  train(small_config(), "interrupted", signal, settings);
  settings.resume = true;
  train(small_config(), "interrupted", settings);
  EXPECT_EQ(repeatable_metrics(at("interrupted")), repeatable_metrics(at("whole")));
}

TEST_F(TrainingRunTest, EqualRunsGiveEqualBytes) {
  RunSettings more_workers;
  more_workers.workers = 3;
  train(small_config(), "one");
  train(small_config(), "other", more_workers);
  EXPECT_EQ(bytes_of(at("one") / "model.safetensors"), bytes_of(at("other") / "model.safetensors"));
  EXPECT_EQ(repeatable_metrics(at("one")), repeatable_metrics(at("other")));
}

TEST_F(TrainingRunTest, AnInterruptedRunResumesBitForBit) {
  for (const std::string optimizer : {"adaact", "sgd", "kfac", "sam"}) {
    auto config = small_config();
    config.optimizer = optimizer;
    train(config, optimizer + "-whole");
    const auto name = optimizer + "-parts";
    int signal = SIGINT;
    for (const std::int64_t step : {2, 6, 7, 15}) {  // in and at the end of epochs
      SignalAt interrupt(step, signal);
      const auto result = train(config, name, interrupt, resuming());
      EXPECT_EQ(result.status, RunResult::Status::Interrupted);
      EXPECT_EQ(result.signal, signal);
      signal = SIGTERM;
    }
    EXPECT_EQ(train(config, name, resuming()).status, RunResult::Status::Finished);
    EXPECT_EQ(bytes_of(at(name) / "model.safetensors"),
              bytes_of(at(optimizer + "-whole") / "model.safetensors"));
    EXPECT_EQ(repeatable_metrics(at(name)), repeatable_metrics(at(optimizer + "-whole")));
  }
}

TEST_F(TrainingRunTest, WorkAfterTheLastCheckpointIsDoneAgainAndWrittenOnce) {
  class Fail : public TrainingCallback {
    void on_step(const adaact::Trainer& /*trainer*/, const StepMetrics& metrics) override {
      if (metrics.step == 8) throw std::runtime_error("pulled the plug");
    }
  } fail;
  RunSettings settings = resuming();
  settings.checkpoint_every = 3;
  error_of([&] { train(small_config(), "parts", fail, settings); });
  EXPECT_EQ(metrics_of(at("parts")).size(), 9U);  // 8 steps and an epoch
  train(small_config(), "parts", settings);
  train(small_config(), "whole");
  EXPECT_EQ(repeatable_metrics(at("parts")), repeatable_metrics(at("whole")));
}

/// Moves a run's folder away, so that no checkpoint can be written, before the first one is due.
class MoveAway : public TrainingCallback {
 public:
  MoveAway(fs::path from, fs::path to) : from_(std::move(from)), to_(std::move(to)) {}
  void on_step(const adaact::Trainer& /*trainer*/, const StepMetrics& metrics) override {
    if (metrics.step == 1) fs::rename(from_, to_);
    after_step(metrics.step);
  }

 protected:
  void move_back() const { fs::rename(to_, from_); }

 private:
  virtual void after_step(std::int64_t step) = 0;

  const fs::path from_;
  const fs::path to_;
};

TEST_F(TrainingRunTest, ACheckpointThatCannotBeWrittenEndsTheRunWithoutDelay) {
  class SlowSteps : public MoveAway {
    using MoveAway::MoveAway;
    void after_step(std::int64_t step) override {
      if (step > 30) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  } callback(at("run"), at("moved"));
  auto config = small_config();
  config.limit_train =
      30 * config.batch_size;  // 30 steps an epoch, at whose end there is a checkpoint
  const auto error = error_of([&] { train(config, "run", callback); });
  EXPECT_TRUE(contains(error, "checkpoint.30.safetensors"));
  const auto last = metrics_of(at("moved")).back().at("step").get<int>();
  EXPECT_GT(last, 30);
  EXPECT_LT(last, 60) << "not only when the next one is due";
}

TEST_F(TrainingRunTest, ASignalsCheckpointIsWrittenThoughTheOneBeforeFailed) {
  class SignalAfterAFailure : public MoveAway {
    using MoveAway::MoveAway;
    void after_step(std::int64_t step) override {
      if (step != 4) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // for the checkpoint to fail
      move_back();
      std::raise(SIGTERM);
    }
  } callback(at("run"), at("moved"));
  RunSettings settings;
  settings.checkpoint_every = 4;
  std::vector<std::string> messages;
  settings.on_message = [&](const std::string& line) { messages.push_back(line); };
  EXPECT_EQ(train(small_config(), "run", callback, settings).status,
            RunResult::Status::Interrupted);
  EXPECT_TRUE(fs::exists(at("run") / "checkpoint.4.safetensors"));
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_TRUE(contains(messages[0], "checkpoint.4.safetensors"));
}

TEST_F(TrainingRunTest, AFinishedRunIsFinished) {
  train(small_config(), "run");
  const auto before = bytes_of(at("run") / "metrics.jsonl");
  EXPECT_EQ(train(small_config(), "run", resuming()).status, RunResult::Status::AlreadyFinished);
  EXPECT_EQ(bytes_of(at("run") / "metrics.jsonl"), before);
}

std::vector<std::string> checkpoints_in(const fs::path& run) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(run)) {
    const auto name = entry.path().filename().string();
    if (name.rfind("checkpoint.", 0) == 0) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(TrainingRunTest, AFinishedRunKeepsAsManyCheckpointsAsItIsTold) {
  RunSettings settings;
  train(small_config(), "run", settings);
  EXPECT_EQ(checkpoints_in(at("run")), std::vector<std::string>{"checkpoint.18.safetensors"});
  settings.checkpoint_every = 4;  // the last step is no multiple of it
  train(small_config(), "by-steps", settings);
  EXPECT_EQ(checkpoints_in(at("by-steps")), std::vector<std::string>{"checkpoint.18.safetensors"});
  settings.keep_checkpoints = 3;
  train(small_config(), "generous", settings);
  EXPECT_EQ(checkpoints_in(at("generous")).size(), 3U);
  settings.keep_checkpoints = 0;
  train(small_config(), "none", settings);
  EXPECT_TRUE(checkpoints_in(at("none")).empty());
  settings.resume = true;  // of a run that is finished already
  EXPECT_EQ(train(small_config(), "run", settings).status, RunResult::Status::AlreadyFinished);
  EXPECT_TRUE(checkpoints_in(at("run")).empty());
}

RunConfig longer_config() {
  auto config = small_config();
  config.epochs = 5;
  return config;
}

TEST_F(TrainingRunTest, AFinishedRunGoesOnToMoreEpochs) {
  // What it must come to: a run that was interrupted at the end of its third epoch and went on as the
  // longer one. It is told apart by its learning rates from one that was longer from the start.
  train(small_config(), "reference");
  fs::remove(at("reference") / "model.safetensors");
  auto config = json::parse(bytes_of(at("reference") / "config.json"));
  config["epochs"] = 5;
  std::ofstream(at("reference") / "config.json") << config.dump();
  train(longer_config(), "reference", resuming());

  train(small_config(), "run");
  const auto first_model = bytes_of(at("run") / "model.safetensors");
  auto settings = resuming();
  std::vector<std::string> messages;
  settings.on_message = [&](const std::string& line) { messages.push_back(line); };
  EXPECT_EQ(train(longer_config(), "run", settings).status, RunResult::Status::Finished);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_TRUE(contains(messages[0], "epochs is 5, it was 3: "));
  EXPECT_TRUE(contains(messages[0], "a cosine over 5 epochs"));
  EXPECT_EQ(metrics_of(at("run")).back()["epoch"], 4);
  EXPECT_EQ(repeatable_metrics(at("run")), repeatable_metrics(at("reference")));
  EXPECT_EQ(bytes_of(at("run") / "model.safetensors"),
            bytes_of(at("reference") / "model.safetensors"));
  EXPECT_EQ(bytes_of(at("run") / "model.after-3-epochs.safetensors"), first_model);
  EXPECT_EQ(RunConfig::read(at("run") / "config.json").epochs, 5);
  EXPECT_EQ(train(longer_config(), "run", resuming()).status, RunResult::Status::AlreadyFinished);
}

TEST_F(TrainingRunTest, AnExtensionThatIsInterruptedGoesOn) {
  train(small_config(), "whole");
  train(longer_config(), "whole", resuming());
  train(small_config(), "parts");
  SignalAt interrupt(20, SIGTERM);
  EXPECT_EQ(train(longer_config(), "parts", interrupt, resuming()).status,
            RunResult::Status::Interrupted);
  EXPECT_FALSE(fs::exists(at("parts") / "model.safetensors"));
  EXPECT_EQ(train(longer_config(), "parts", resuming()).status, RunResult::Status::Finished);
  EXPECT_EQ(repeatable_metrics(at("parts")), repeatable_metrics(at("whole")));
  EXPECT_EQ(bytes_of(at("parts") / "model.safetensors"),
            bytes_of(at("whole") / "model.safetensors"));
}

TEST_F(TrainingRunTest, AKillBeforeAnExtensionIsNotedLeavesTheRunAsItWas) {
  train(small_config(), "run");
  const auto model = bytes_of(at("run") / "model.safetensors");
  fs::rename(at("run") / "model.safetensors", at("run") / "model.after-3-epochs.safetensors");
  EXPECT_EQ(train(small_config(), "run", resuming()).status, RunResult::Status::Finished);
  EXPECT_EQ(bytes_of(at("run") / "model.safetensors"), model);
}

TEST_F(TrainingRunTest, WithoutACheckpointAFinishedRunIsAtItsEnd) {
  RunSettings settings;
  settings.keep_checkpoints = 0;
  train(small_config(), "run", settings);
  const auto config = bytes_of(at("run") / "config.json");
  EXPECT_TRUE(contains(error_of([&] { train(longer_config(), "run", resuming()); }),
                       "has no checkpoint to go on from"));
  EXPECT_EQ(bytes_of(at("run") / "config.json"), config);
  EXPECT_TRUE(fs::exists(at("run") / "model.safetensors"));
}

TEST_F(TrainingRunTest, FewerEpochsAreRefused) {
  train(small_config(), "run");
  auto shorter = small_config();
  shorter.epochs = 2;
  EXPECT_THROW(train(shorter, "run", resuming()), c10::ValueError);
}

TEST_F(TrainingRunTest, OtherThreadsAreSaid) {
  SignalAt interrupt(5, SIGTERM);
  train(small_config(), "run", interrupt);
  auto config = small_config();
  config.threads = 2;
  auto settings = resuming();
  std::vector<std::string> messages;
  settings.on_message = [&](const std::string& line) { messages.push_back(line); };
  EXPECT_EQ(train(config, "run", settings).status, RunResult::Status::Finished);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_TRUE(contains(messages[0], "threads is 2, it was 1: from here on the last bits may"));
  EXPECT_EQ(RunConfig::read(at("run") / "config.json").threads, 2);
}

/// The epochs, counted from 1, that were better than all before.
std::vector<int> better_epochs(const fs::path& run) {
  std::vector<int> better;
  double best = -1.0;
  for (const auto& line : metrics_of(run)) {
    if (line["kind"] != "epoch" || line["test_top1"].get<double>() <= best) continue;
    best = line["test_top1"];
    better.push_back(line["epoch"].get<int>() + 1);
  }
  return better;
}

/// Learns so slowly that most epochs are no better than the ones before.
RunConfig slow_config() {
  auto config = small_config();
  config.optimizer = "sgd";
  config.optimizer_options = R"({"lr": 1e-6})";
  config.epochs = 12;
  return config;
}

TEST_F(TrainingRunTest, PatienceEndsARunAndResumingComesToTheSameEnd) {
  auto config = slow_config();
  config.patience = 2;
  const auto result = train(config, "whole");
  EXPECT_EQ(result.status, RunResult::Status::Finished);
  const auto better = better_epochs(at("whole"));
  const auto last = metrics_of(at("whole")).back();
  ASSERT_LT(last["epoch"].get<int>() + 1, 12);
  EXPECT_EQ(last["epoch"].get<int>() + 1, better.back() + 2);
  EXPECT_TRUE(contains(result.ending, "of epoch " + std::to_string(better.back())));
  EXPECT_TRUE(contains(result.ending, "for 2 epochs"));
  EXPECT_TRUE(fs::exists(at("whole") / "model.safetensors"));
  EXPECT_EQ(train(config, "whole", resuming()).status, RunResult::Status::AlreadyFinished);

  const auto steps = last["step"].get<int>();
  for (const std::int64_t step : {5, 6, 7, steps - 1, steps}) {
    SignalAt interrupt(step, SIGTERM);
    train(config, "parts", interrupt, resuming());
  }
  train(config, "parts", resuming());
  EXPECT_EQ(repeatable_metrics(at("parts")), repeatable_metrics(at("whole")));
  EXPECT_EQ(bytes_of(at("parts") / "model.safetensors"),
            bytes_of(at("whole") / "model.safetensors"));
}

TEST_F(TrainingRunTest, ARunThatPatienceEndedGoesOnWithMoreOfIt) {
  auto config = slow_config();
  config.patience = 2;
  train(config, "run");
  const auto before = bytes_of(at("run") / "metrics.jsonl");
  const auto file_before = bytes_of(at("run") / "config.json");
  config.epochs = 20;  // more epochs alone do not help
  const auto result = train(config, "run", resuming());
  EXPECT_EQ(result.status, RunResult::Status::AlreadyFinished);
  EXPECT_TRUE(contains(result.ending, "for 2 epochs"));
  EXPECT_EQ(bytes_of(at("run") / "metrics.jsonl"), before);
  EXPECT_EQ(bytes_of(at("run") / "config.json"), file_before);
  EXPECT_TRUE(fs::exists(at("run") / "model.safetensors"));

  config.epochs = 12;
  config.patience = 0;
  EXPECT_EQ(train(config, "run", resuming()).ending, "");
  EXPECT_EQ(metrics_of(at("run")).back()["epoch"], 11);
}

TEST_F(TrainingRunTest, TheBestEpochIsKeptWhateverHappens) {
  auto settings = resuming();
  settings.save_best = true;
  train(slow_config(), "whole", settings);
  const auto better = better_epochs(at("whole"));
  ASSERT_LT(better.back(), 12) << "else the best is the last, and this shows nothing";
  const auto best = adaact::TensorFile::read(at("whole") / "best.safetensors",
                                             adaact::TensorFile::Checksum::Required);
  EXPECT_EQ(best.metadata.at("epoch"), std::to_string(better.back()));

  const auto config = slow_config();
  for (const std::int64_t step : {3, 8, 14, 6 * better.back()}) {
    SignalAt interrupt(step, SIGTERM);
    train(config, "parts", interrupt, settings);
  }
  train(config, "parts", settings);
  EXPECT_EQ(bytes_of(at("parts") / "best.safetensors"), bytes_of(at("whole") / "best.safetensors"));
  EXPECT_NE(bytes_of(at("whole") / "best.safetensors"),
            bytes_of(at("whole") / "model.safetensors"));
  auto with_best = config;
  with_best.weights = (at("whole") / "best.safetensors").string();
  const auto evaluation = adaact::evaluate_weights(with_best, [](const std::string&) {});
  double top1 = 0.0;
  for (const auto& line : metrics_of(at("whole"))) {
    if (line["kind"] == "epoch") top1 = std::max(top1, line["test_top1"].get<double>());
  }
  EXPECT_EQ(evaluation.top1, top1);
}

TEST_F(TrainingRunTest, ABestEpochFromBeforeItWasAskedForIsSaid) {
  auto config = slow_config();
  SignalAt interrupt(15, SIGTERM);
  train(config, "run", interrupt);
  auto settings = resuming();
  settings.save_best = true;
  std::vector<std::string> messages;
  settings.on_message = [&](const std::string& line) { messages.push_back(line); };
  train(config, "run", settings);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_TRUE(contains(messages[0], "begins with the first epoch that is better than the "));
}

TEST_F(TrainingRunTest, HowItIsCarriedOutIsInTheFolder) {
  RunSettings settings;
  settings.checkpoint_every = 5;
  settings.save_best = true;
  train(small_config(), "run", settings);
  const auto read = RunSettings::read(at("run") / "config.json");
  EXPECT_EQ(read.checkpoint_every, 5);
  EXPECT_TRUE(read.save_best);
  EXPECT_FALSE(read.resume);
}

TEST_F(TrainingRunTest, TheWeightsOfACheckpointServeAsWeights) {
  SignalAt interrupt(8, SIGTERM);
  train(small_config(), "run", interrupt);
  const auto checkpoint = at("run") / "checkpoint.8.safetensors";
  auto config = small_config();
  config.weights = checkpoint.string();
  EXPECT_EQ(adaact::evaluate_weights(config, [](const std::string&) {}).images, 40);
  const adaact::Classifier classifier(checkpoint);
  EXPECT_EQ(classifier.card().model, "lenet5");
  EXPECT_EQ(classifier.card().data.class_names.size(), 10U);
}

TEST_F(TrainingRunTest, AnEmptyFolderStaysEmptyIfNothingCanBegin) {
  fs::create_directories(at("run"));
  auto config = small_config();
  config.dataset = "cifar10";
  config.data_dir = at("nothing").string();
  EXPECT_TRUE(contains(error_of([&] { train(config, "run"); }), "cifar-10-binary.tar.gz"));
  EXPECT_TRUE(fs::is_empty(at("run")));
  EXPECT_EQ(train(small_config(), "run").status, RunResult::Status::Finished);
}

TEST_F(TrainingRunTest, AFolderThatExistsNeedsResume) {
  train(small_config(), "run");
  EXPECT_TRUE(contains(error_of([&] { train(small_config(), "run"); }), "exists already"));
}

TEST_F(TrainingRunTest, AnotherConfigurationShowsItsDifferences) {
  train(small_config(), "run");
  auto other = small_config();
  other.batch_size = 8;
  other.optimizer_options = R"({"lr": 0.5})";
  const auto error = error_of([&] { train(other, "run", resuming()); });
  EXPECT_TRUE(contains(error, "batch_size is 8, there it is 16"));
  EXPECT_TRUE(contains(error, "optimizer option lr is 0.5, there it is 0.1"));
}

TEST_F(TrainingRunTest, AFolderOfSomethingElseIsLeftAlone) {
  fs::create_directories(at("photos"));
  std::ofstream(at("photos") / "cat.txt") << "meow";
  EXPECT_TRUE(contains(error_of([&] { train(small_config(), "photos", resuming()); }),
                       "there is no config.json in it"));
  EXPECT_EQ(std::distance(fs::directory_iterator(at("photos")), {}), 1);
}

TEST_F(TrainingRunTest, BatchNormAndDropPathResumeBitForBit) {
  auto config = small_config();
  config.model = "resnet50";
  config.drop_path = 0.3;
  config.threads = 2;
  config.limit_train = 12;
  config.limit_test = 4;
  config.batch_size = 4;
  config.epochs = 1;
  train(config, "whole");
  SignalAt interrupt(2, SIGTERM);
  train(config, "parts", interrupt, resuming());
  train(config, "parts", resuming());
  EXPECT_EQ(bytes_of(at("parts") / "model.safetensors"),
            bytes_of(at("whole") / "model.safetensors"));
  EXPECT_EQ(repeatable_metrics(at("parts")), repeatable_metrics(at("whole")));
}

/// Photographs of two classes in `folder`.
void make_photographs(const fs::path& folder) {
  for (const std::string split : {"train", "val"}) {
    for (int i = 0; i < 12; ++i) {
      const auto name = std::to_string(i) + ".jpg";
      const auto colour = static_cast<std::uint8_t>(20 * i);
      adaact::testing::write_jpeg(folder / split / (i % 2 == 0 ? "cat" : "dog") / name,
                                  i % 3 == 0
                                      ? adaact::testing::varied_image(40 + i, 50, 3)
                                      : adaact::testing::plain_image(50, 40 + i, {colour, 90, 9}));
    }
  }
}

/// ImageNet's for ViT-S on twelve photographs: three steps an epoch, the last one of one batch.
RunConfig whole_recipe(const fs::path& photographs) {
  RunConfig config;
  config.model = "vit_small";
  config.dataset = "image-folder";
  config.data_dir = photographs.string();
  config.image_size = 32;
  config.crop_ratio = 0.9;
  config.crop = "resized";
  config.rand_augment = "rand-m7-mstd0.5-inc1";
  config.erase = 0.5;
  config.mixup = 0.8;
  config.cutmix = 1.0;
  config.loss = "bce";
  config.label_smoothing = 0.1;
  config.drop_path = 0.1;
  config.ema = 0.75;
  config.optimizer_options = R"({"lr": 0.4})";
  config.warmup_epochs = 1;
  config.warmup_lr = 0.1;
  config.min_lr = 0.01;
  config.batch_size = 2;
  config.accumulation = 2;
  config.clip_norm = 1.0;
  config.epochs = 2;
  config.threads = 1;
  return config;
}

TEST_F(TrainingRunTest, TheWholeRecipeResumesBitForBit) {
  make_photographs(at("photographs"));
  const auto config = whole_recipe(at("photographs"));
  train(config, "whole");
  for (const std::int64_t step : {1, 4}) {
    SignalAt interrupt(step, SIGTERM);
    train(config, "parts", interrupt, resuming());
  }
  EXPECT_EQ(train(config, "parts", resuming()).status, RunResult::Status::Finished);
  EXPECT_EQ(bytes_of(at("parts") / "model.safetensors"),
            bytes_of(at("whole") / "model.safetensors"));
  EXPECT_EQ(repeatable_metrics(at("parts")), repeatable_metrics(at("whole")));
}

TEST_F(TrainingRunTest, TheResultIsTheAverageAndTheCheckpointHasTheWeights) {
  auto config = small_config();
  train(config, "plain");
  config.ema = 0.9;
  RunSettings settings;
  settings.save_best = true;
  settings.checkpoint_every = 7;
  train(config, "averaged", settings);
  const auto checkpoint = [&](const std::string& name) {
    return adaact::TensorFile::read(at(name) / "checkpoint.18.safetensors");
  };
  const auto plain = checkpoint("plain");
  const auto averaged = checkpoint("averaged");
  const auto result = adaact::TensorFile::read(at("averaged") / "model.safetensors");
  const auto best = adaact::TensorFile::read(at("averaged") / "best.safetensors");
  EXPECT_TRUE(averaged.at("model/fc3.weight").equal(plain.at("model/fc3.weight")));
  EXPECT_FALSE(averaged.at("average/fc3.weight").equal(plain.at("model/fc3.weight")));
  EXPECT_TRUE(result.at("fc3.weight").equal(averaged.at("average/fc3.weight")));
  EXPECT_FALSE(best.at("fc3.weight").equal(averaged.at("model/fc3.weight")));
  const auto read = RunConfig::read(at("averaged") / "config.json");
  auto again = read;
  again.weights = (at("averaged") / "model.safetensors").string();
  const auto test = adaact::evaluate_weights(again, [](const std::string&) {});
  EXPECT_EQ(metrics_of(at("averaged")).back()["test_loss"].get<double>(), test.loss);
}

TEST_F(TrainingRunTest, ACheckpointWithoutItsAverageIsRefused) {
  auto config = small_config();
  config.ema = 0.9;
  SignalAt interrupt(4, SIGTERM);
  train(config, "run", interrupt);
  const auto path = at("run") / "checkpoint.4.safetensors";
  auto checkpoint = adaact::TensorFile::read(path);
  checkpoint.tensors.erase("average/fc1.bias");
  checkpoint.write(path);
  EXPECT_TRUE(contains(error_of([&] { train(config, "run", resuming()); }),
                       "the field 'average' lacks 'fc1.bias'"));
  config.ema = 0.0;
  EXPECT_TRUE(
      contains(error_of([&] { train(config, "run", resuming()); }), "ema is 0.0, there it is 0.9"));
}

TEST_F(TrainingRunTest, ALossThatIsNoNumberDoesNotSpoilTheCheckpoint) {
  auto config = small_config();
  config.optimizer = "sgd";
  config.optimizer_options = R"({"lr": 1e30, "non_finite_policy": "skip"})";
  SignalAt interrupt(5, SIGTERM);
  train(config, "run", interrupt, resuming());
  EXPECT_TRUE(metrics_of(at("run")).back()["loss"].is_null());
  EXPECT_EQ(train(config, "run", resuming()).status, RunResult::Status::Finished);

  auto with_variances = resuming();
  with_variances.activation_variances = true;
  SignalAt later(4, SIGTERM);
  train(config, "variances", later, with_variances);
  EXPECT_EQ(train(config, "variances", with_variances).status, RunResult::Status::Finished);
}

/// Its second step has a gradient that is not finite.
RunConfig diverging_config() {
  auto config = small_config();
  config.optimizer = "sgd";
  config.optimizer_options = R"({"lr": 1e30})";
  return config;
}

TEST_F(TrainingRunTest, ARunThatDivergesTellsOfIt) {
  EXPECT_THROW(train(diverging_config(), "run"), adaact::NonFiniteError);
  const auto lines = metrics_of(at("run"));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["kind"], "step");
  const auto& last = lines[1];
  EXPECT_EQ(last["kind"], "diverged");
  EXPECT_EQ(last["step"], 2);
  EXPECT_EQ(last["epoch"], 0);
  EXPECT_TRUE(contains(last["message"], "SGD: the gradient of '"));
  EXPECT_FALSE(fs::exists(at("run") / "model.safetensors"));
}

TEST_F(TrainingRunTest, ARunThatDivergesAgainTellsOfItOnce) {
  auto settings = resuming();
  for (const std::int64_t checkpoint_every : {0, 1}) {  // from its beginning and after a step
    const auto name = "run" + std::to_string(checkpoint_every);
    settings.checkpoint_every = checkpoint_every;
    EXPECT_THROW(train(diverging_config(), name, settings), adaact::NonFiniteError);
    const auto first = repeatable_metrics(at(name));
    EXPECT_THROW(train(diverging_config(), name, settings), adaact::NonFiniteError);
    EXPECT_EQ(repeatable_metrics(at(name)), first);
  }
}

TEST_F(TrainingRunTest, ADivergenceBehindTheCheckpointIsForgotten) {
  train(small_config(), "whole");
  SignalAt interrupt(8, SIGTERM);
  train(small_config(), "parts", interrupt);
  std::ofstream(at("parts") / "metrics.jsonl", std::ios::app)
      << R"({"kind":"diverged","step":9,"epoch":1,"message":"a bit flipped"})"
      << "\n";
  train(small_config(), "parts", resuming());
  EXPECT_EQ(repeatable_metrics(at("parts")), repeatable_metrics(at("whole")));
}

TEST_F(TrainingRunTest, AnEventFileThatIsGoneBeginsAnew) {
  SignalAt interrupt(5, SIGTERM);
  train(small_config(), "run", interrupt);
  for (const auto& entry : fs::directory_iterator(at("run"))) {
    if (contains(entry.path().string(), "tfevents")) fs::remove(entry.path());
  }
  auto settings = resuming();
  std::vector<std::string> messages;
  settings.on_message = [&](const std::string& line) { messages.push_back(line); };
  EXPECT_EQ(train(small_config(), "run", settings).status, RunResult::Status::Finished);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_TRUE(contains(messages[0], "begins anew"));
}

TEST_F(TrainingRunTest, ADamagedCheckpointIsPutAsideAndTheResultIsTheSame) {
  RunSettings settings = resuming();
  settings.checkpoint_every = 2;
  std::vector<std::string> messages;
  settings.on_message = [&](const std::string& line) { messages.push_back(line); };
  SignalAt interrupt(8, SIGTERM);
  train(small_config(), "parts", interrupt, settings);
  fs::resize_file(at("parts") / "checkpoint.8.safetensors", 1000);
  train(small_config(), "parts", settings);
  train(small_config(), "whole");
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_TRUE(contains(messages[0], "checkpoint.8.safetensors"));
  EXPECT_TRUE(fs::exists(at("parts") / "checkpoint.8.safetensors.damaged"));
  EXPECT_EQ(repeatable_metrics(at("parts")), repeatable_metrics(at("whole")));
  EXPECT_EQ(bytes_of(at("parts") / "model.safetensors"),
            bytes_of(at("whole") / "model.safetensors"));
}

TEST_F(TrainingRunTest, OtherDataThanTheCheckpointsAreAnError) {
  const auto add_image = [&](const std::string& split, const std::string& animal,
                             const std::string& name) {
    const auto folder = at("images") / split / animal;
    fs::create_directories(folder);
    adaact::testing::write_jpeg(folder / name, adaact::testing::plain_image(8, 8, {9, 9, 200}));
  };
  for (const std::string split : {"train", "val"}) {
    for (const std::string animal : {"cat", "dog"}) {
      for (const std::string name : {"a.jpg", "b.jpg"}) add_image(split, animal, name);
    }
  }
  auto config = small_config();
  config.dataset = "image-folder";
  config.data_dir = at("images").string();
  config.image_size = 32;
  config.limit_train = 0;
  config.limit_test = 0;
  config.batch_size = 1;
  SignalAt interrupt(5, SIGTERM);
  train(config, "run", interrupt);
  add_image("train", "dog", "c.jpg");
  EXPECT_TRUE(contains(error_of([&] { train(config, "run", resuming()); }),
                       "they were 'train 4 images of 2 classes"));
  fs::remove(at("images") / "train" / "dog" / "c.jpg");
  fs::rename(at("images"), at("moved"));
  config.data_dir = at("moved").string();
  EXPECT_EQ(train(config, "run", resuming()).status, RunResult::Status::Finished);
}

TEST_F(TrainingRunTest, LearningRatesAreThoseOfTheRecipe) {
  auto config = small_config();
  config.optimizer_options = R"({"lr": 4.0})";
  config.limit_train = 16;  // a step an epoch
  config.epochs = 10;
  config.warmup_epochs = 3;
  config.final_lr_factor = 1e-4;
  train(config, "run");
  const auto pi = std::acos(-1.0);
  const auto lines = metrics_of(at("run"));
  for (const auto& line : lines) {
    if (line["kind"] != "step") continue;
    const auto t = line["epoch"].get<int>();
    const auto expected =
        t < 3 ? 0.4 + 1.2 * t : 4e-4 + 0.5 * (4 - 4e-4) * (1 + std::cos(pi * t / 10));
    EXPECT_NEAR(line["learning_rate"].get<double>(), expected, 1e-12) << t;
  }
}

TEST_F(TrainingRunTest, WarmUpBeginsAndTheCosineEndsAtTheirRates) {
  auto config = small_config();
  config.optimizer_options = R"({"lr": 4.0})";
  config.limit_train = 16;  // a step an epoch
  config.epochs = 6;
  config.warmup_epochs = 2;
  config.warmup_lr = 1.0;
  config.min_lr = 0.5;
  train(config, "run");
  const auto pi = std::acos(-1.0);
  std::int64_t steps = 0;
  for (const auto& line : metrics_of(at("run"))) {
    if (line["kind"] != "step") continue;
    const auto t = line["epoch"].get<int>();
    const auto expected = t < 2 ? 1.0 + 1.5 * t : 0.5 + 0.5 * 3.5 * (1 + std::cos(pi * t / 6));
    EXPECT_NEAR(line["learning_rate"].get<double>(), expected, 1e-12) << t;
    ++steps;
  }
  EXPECT_EQ(steps, 6);
}

TEST_F(TrainingRunTest, BadConfigurationsAreErrors) {
  const auto error = [&](auto&& change) {
    auto config = small_config();
    change(config);
    return error_of([&] { train(config, "bad"); });
  };
  EXPECT_TRUE(contains(error([](auto& c) { c.epochs = 0; }), "epochs is 0, expected 1 to"));
  EXPECT_TRUE(contains(error([](auto& c) { c.optimizer_options = R"({"lr": -1})"; }), "lr is -1"));
  EXPECT_TRUE(contains(error([](auto& c) {
                         c.schedule = "multistep";
                         c.milestones = {2, 1};
                       }),
                       "milestones"));
  RunSettings settings;
  settings.workers = 100000;
  EXPECT_TRUE(contains(error_of([&] { train(small_config(), "bad", settings); }),
                       "workers is 100000, expected 0 to 256"));
  settings = {};
  settings.update_norm_every = 0;
  EXPECT_TRUE(contains(error_of([&] { train(small_config(), "bad", settings); }),
                       "update_norm_every is 0"));
  settings = {};
  settings.image_work = "tpu";
  EXPECT_TRUE(contains(error_of([&] { train(small_config(), "bad", settings); }),
                       "image_work is 'tpu', expected cpu, gpu or nvjpeg"));
  EXPECT_FALSE(fs::exists(at("bad")));
}

}  // namespace
