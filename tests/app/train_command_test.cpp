// `adaact train` and `adaact eval` as a person uses them.

#include <adaact/io/safetensors.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "app/tool.h"
#include "data/image_files.h"
#include "support/errors.h"

namespace {

using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::expect_equal_runs;
using adaact::testing::metrics_of;
using adaact::testing::Outcome;
using adaact::testing::short_training;
using adaact::testing::ToolFolder;
using adaact::testing::wait_until;
using adaact::testing::Words;
namespace fs = std::filesystem;

class TrainCommandTest : public ::testing::Test {
 protected:
  Words training(const std::string& name, const Words& more = {}) const {
    auto command = short_training(folder_.at(name));
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  Outcome train(const std::string& name, const Words& more = {}) const {
    return folder_.run(training(name, more));
  }
  fs::path at(const std::string& name) const { return folder_.at(name); }

  ToolFolder folder_;
};

TEST_F(TrainCommandTest, TrainsAndSaysWhereTheModelIs) {
  const auto [code, printed] = train("run");
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(contains(printed, "test top-1"));
  EXPECT_TRUE(contains(printed, (at("run") / "model.safetensors").string()));
  EXPECT_EQ(metrics_of(at("run")).size(), 63U);  // 60 steps and 3 epochs
}

TEST_F(TrainCommandTest, ResumeBeginsWhatIsNotThereAndLeavesWhatIsDone) {
  EXPECT_EQ(train("run", {"--resume"}).code, 0);
  const auto before = fs::last_write_time(at("run") / "metrics.jsonl");
  const auto [code, printed] = train("run", {"--resume"});
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(contains(printed, "is finished already"));
  EXPECT_EQ(fs::last_write_time(at("run") / "metrics.jsonl"), before);
}

TEST_F(TrainCommandTest, AFolderThatExistsOrDiffersIsAnError) {
  train("run");
  const auto again = train("run");
  EXPECT_EQ(again.code, 1);
  EXPECT_TRUE(contains(again.printed, "exists already"));
  EXPECT_TRUE(contains(again.printed, "--resume"));
  const auto other = train("run", {"--resume", "--lr", "0.3", "--seed", "7"});
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(contains(other.printed, "optimizer option lr is 0.3, there it is 0.1"));
  EXPECT_TRUE(contains(other.printed, "seed is 7, there it is 0"));
}

TEST_F(TrainCommandTest, ASignalSavesAndResumeGoesOn) {
  train("whole");
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto run = at("run" + std::to_string(signal));
    auto command = short_training(run);
    command.emplace_back("--resume");
    auto process = folder_.start(command);
    wait_until(process, [&] {
      return fs::exists(run / "metrics.jsonl") && fs::file_size(run / "metrics.jsonl") > 3000;
    });
    process.send(signal);
    EXPECT_EQ(process.wait(), 128 + signal) << process.printed();
    EXPECT_TRUE(contains(process.printed(), "--resume"));
    EXPECT_FALSE(fs::exists(run / "model.safetensors"));
    const auto [code, printed] = folder_.run(command);
    EXPECT_EQ(code, 0);
    EXPECT_TRUE(contains(printed, "resumed after step"));
    expect_equal_runs(run, at("whole"));
  }
}

TEST_F(TrainCommandTest, ARunThatDivergesIsAnErrorAndTellsOfIt) {
  const auto [code, printed] = train("run", {"--optimizer", "sgd", "--lr", "1e30"});
  EXPECT_EQ(code, 1);
  EXPECT_TRUE(contains(printed, "is not finite"));
  EXPECT_EQ(metrics_of(at("run")).back()["kind"], "diverged");
  const Words report{"report", at("run").string(), "--out", at("report.html").string()};
  EXPECT_TRUE(contains(folder_.run(report).printed, "diverged in epoch 1"));
}

TEST_F(TrainCommandTest, ASecondProcessIsKeptOut) {
  auto first = folder_.start(training("run", {"--epochs", "1000"}));
  wait_until(first, [&] { return fs::exists(at("run") / "metrics.jsonl"); });
  const auto [code, printed] = folder_.run(training("run", {"--epochs", "1000", "--resume"}));
  EXPECT_EQ(code, 1);
  EXPECT_TRUE(contains(printed, "another process is training in"));
}

TEST_F(TrainCommandTest, ATrainingWhoseReaderIsGoneGoesOn) {
  std::string line = "set -o pipefail; ";
  for (const auto& word : adaact::testing::tool_command(training("run"))) line += "'" + word + "' ";
  EXPECT_EQ(folder_.run_command({"bash", "-c", line + "| true"}).code, 0);
  EXPECT_TRUE(fs::exists(at("run") / "model.safetensors"));
}

TEST_F(TrainCommandTest, SeveralSeedsAreARunEachAndTheirMean) {
  const auto [code, printed] = train("runs", {"--seeds", "3,5"});
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(contains(printed, "mean of 2: "));
  EXPECT_TRUE(contains(printed, "(standard error)"));
  for (const std::string seed : {"3", "5"}) {
    train("alone-" + seed, {"--seed", seed});
    expect_equal_runs(at("runs") / ("seed-" + seed), at("alone-" + seed));
  }

  const auto again = train("runs", {"--seeds", "5,7"});
  EXPECT_EQ(again.code, 1);
  EXPECT_TRUE(contains(again.printed, "seed-5 exists already"));
  EXPECT_FALSE(fs::exists(at("runs") / "seed-7"));
  const auto resumed = train("runs", {"--seeds", "3,5,7", "--resume", "--json"});
  EXPECT_EQ(resumed.code, 0);
  const auto summary = nlohmann::json::parse(resumed.printed.substr(resumed.printed.find("{\n")));
  EXPECT_EQ(summary.at("finished"), 3);
  double sum = 0.0;
  for (const auto& run : summary.at("runs")) sum += run.at("test_top1").get<double>();
  EXPECT_DOUBLE_EQ(summary.at("test_top1_mean").get<double>(), sum / 3.0);
  EXPECT_EQ(summary.at("runs").at(2).at("seed"), 7);

  // Seed 3 has lost its metrics, and the folder of seed 9 is somebody else's.
  fs::remove(at("runs") / "seed-3" / "metrics.jsonl");
  fs::create_directories(at("runs") / "seed-9" / "letters");
  const auto damaged = train("runs", {"--seeds", "3,5,9", "--resume", "--json"});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_TRUE(contains(damaged.printed, "no metrics of an epoch"));
  EXPECT_TRUE(contains(damaged.printed, "adaact: seed 9: "));
  EXPECT_TRUE(contains(damaged.printed, R"("finished": 1)"));
  EXPECT_TRUE(contains(damaged.printed, R"("error": ")"));
}

TEST_F(TrainCommandTest, WithoutAGpuTheCpuTakesItsPlace) {
  if (torch::cuda::device_count() > 0) GTEST_SKIP() << "there is a GPU";
  const auto [code, printed] =
      train("run", {"--device", "cuda:1", "--precision", "tf32", "--deterministic"});
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(contains(printed, "device is 'cuda:1', but LibTorch finds no GPU here"));
  train("on_cpu");
  expect_equal_runs(at("run"), at("on_cpu"));
  const Words gpu{"--device", "cuda", "--precision", "tf32"};
  for (Words command : {Words{"bench", "--model", "lenet5", "--batch-size", "2", "--steps", "5"},
                        Words{"eval", "--run", at("run").string()}}) {
    command.insert(command.end(), gpu.begin(), gpu.end());
    const auto outcome = folder_.run(command);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_TRUE(contains(outcome.printed, "the CPU takes its place"));
  }
}

TEST_F(TrainCommandTest, EvaluationRepeatsWhatTrainingSaw) {
  train("run", {"--seed", "5"});
  const auto last = metrics_of(at("run")).back();
  char expected[100];
  std::snprintf(expected, sizeof(expected), "images 40  loss %.4f  top-1 %.2f %%  top-5 %.2f %%",
                last["test_loss"].get<double>(), 100 * last["test_top1"].get<double>(),
                100 * last["test_top5"].get<double>());
  const auto [code, printed] =
      folder_.run({"eval", "--weights", (at("run") / "model.safetensors").string(), "--model",
                   "lenet5", "--dataset", "synthetic", "--limit-test", "40", "--seed", "5"});
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(contains(printed, expected));
}

TEST_F(TrainCommandTest, AHeadOfAnotherSizeIsReplacedAndSaidSo) {
  train("run");
  for (const std::string split : {"train", "val"}) {
    for (const std::string animal : {"cat", "dog"}) {
      const auto folder = at("images") / split / animal;
      fs::create_directories(folder);
      adaact::testing::write_jpeg(folder / "a.jpg",
                                  adaact::testing::plain_image(40, 40, {200, 0, 0}));
    }
  }
  std::ofstream(at("images") / "train" / "dog" / "bad.png") << "no image";
  const Words fine_tuning{"train",
                          "--out",
                          at("fine").string(),
                          "--dataset",
                          "image-folder",
                          "--data-dir",
                          at("images").string(),
                          "--image-size",
                          "32",
                          "--epochs",
                          "1",
                          "--weights",
                          (at("run") / "model.safetensors").string()};
  const auto bad = folder_.run(fine_tuning);
  EXPECT_EQ(bad.code, 1);
  EXPECT_TRUE(contains(bad.printed, "bad.png"));
  fs::remove_all(at("fine"));

  auto skipping = fine_tuning;
  skipping.emplace_back("--skip-bad-images");
  const auto [code, printed] = folder_.run(skipping);
  EXPECT_EQ(code, 0) << printed;
  EXPECT_TRUE(contains(printed, "'fc3.weight'"));
  EXPECT_TRUE(contains(printed, "another number of classes"));
  EXPECT_TRUE(contains(printed, "bad.png"));
  EXPECT_TRUE(contains(printed, "1 of 3 images are left out"));
  const auto model = adaact::TensorFile::read(at("fine") / "model.safetensors",
                                              adaact::TensorFile::Checksum::Required);
  EXPECT_EQ(model.metadata.at("classes"), R"(["cat","dog"])");
}

TEST_F(TrainCommandTest, MistakesAreOneLineAndLeaveNoFolder) {
  const auto mistake = [&](const Words& more) {
    const auto outcome = train("bad", more);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_FALSE(fs::exists(at("bad")));
    EXPECT_EQ(std::count(outcome.printed.begin(), outcome.printed.end(), '\n'), 1)
        << outcome.printed;
    return outcome.printed;
  };
  EXPECT_TRUE(contains(mistake({"--model", "lenet6"}), "model is 'lenet6', expected one of: "));
  EXPECT_TRUE(contains(mistake({"--dataset", "cifar10", "--data-dir", "/nowhere"}), "/nowhere"));
  EXPECT_TRUE(contains(mistake({"--optimizer", "adamax"}), "optimizer is 'adamax'"));
  EXPECT_TRUE(contains(mistake({"--lr", "-1"}), "lr is -1"));
  EXPECT_TRUE(contains(mistake({"--weights", "/nowhere.safetensors"}), "/nowhere.safetensors"));
  EXPECT_TRUE(contains(mistake({"--optimizer-options", "[1]"}), "expected a JSON object"));
  EXPECT_TRUE(contains(mistake({"--lr", "nan"}), "lr is nan"));
  EXPECT_TRUE(contains(mistake({"--batch-size", "0"}), "--batch-size is 0"));
  EXPECT_TRUE(contains(mistake({"--schedule", "multistep", "--milestones", "2,1"}), "milestones"));
  EXPECT_EQ(folder_.run({"train"}).code, 2);
  EXPECT_EQ(folder_.run({"trian"}).code, 2);
}

}  // namespace
