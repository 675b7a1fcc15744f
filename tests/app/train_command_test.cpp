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
  EXPECT_FALSE(contains(printed, " left")) << "a short training needs no estimate";
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

TEST_F(TrainCommandTest, BeginsWithWhatItIsMadeOf) {
  const auto [code, printed] =
      train("run", {"--warmup-epochs", "1", "--patience", "9", "--optimizer-options",
                    R"({"betas": [0.8, 0.9]})", "--optimizer", "adam"});
  ASSERT_EQ(code, 0) << printed;
  const auto out = at("run").string();
  EXPECT_EQ(printed.substr(0, printed.find("\n\n")),
            "data       synthetic: 156 images to train, 40 to test, 10 classes, 3×32×32\n"
            "model      lenet5, 62,006 parameters\n"
            "device     cpu, 1 thread, fp32\n"
            "optimizer  adam: lr 0.001, amsgrad false, betas 0.8/0.9, eps 1e-08, weight_decay 0\n"
            "schedule   cosine over 3 epochs, after 1 epoch of warm-up\n"
            "training   3 epochs of 20 steps, 8 images a step, ended by 9 epochs without a better "
            "test top-1\n"
            "run        " +
                out)
      << printed;
}

TEST_F(TrainCommandTest, AFolderThatExistsOrDiffersIsAnError) {
  train("run");
  const auto again = train("run");
  EXPECT_EQ(again.code, 1);
  EXPECT_TRUE(contains(again.printed, "exists already"));
  EXPECT_TRUE(contains(again.printed, "--resume"));
  const auto refusal = [&](const Words& more) {
    const auto [code, printed] = train("run", more);
    EXPECT_EQ(code, 2);
    EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 1) << printed;
    return printed;
  };
  const auto run = at("run").string();
  EXPECT_TRUE(contains(refusal({"--resume", "--lr", "0.3"}),
                       "--lr is 0.3, but the run in " + run + " has 0.1; with --resume only"));
  EXPECT_TRUE(contains(refusal({"--resume", "--optimizer-options", R"({"lr": 0.3})"}),
                       "--optimizer-options has lr 0.3, but the run in " + run + " has 0.1"));
  EXPECT_TRUE(contains(refusal({"--resume", "--seed", "7"}),
                       "--seed is 7, but the run in " + run + " has 0"));
  EXPECT_TRUE(contains(refusal({"--resume", "--epochs", "2"}),
                       "--epochs is 2, but the run in " + run + " has 3"));
  EXPECT_TRUE(contains(refusal({"--resume", "--no-augment"}),
                       "--no-augment is given, but in the run in " + run + " augment is true"));
}

TEST_F(TrainCommandTest, AnEmptyFolderIsFine) {
  fs::create_directories(at("run"));
  EXPECT_EQ(train("run").code, 0);
}

TEST_F(TrainCommandTest, ResumeAloneGoesOn) {
  const Words odd{"--no-augment",
                  "--optimizer-options",
                  R"({"covariance": "full"})",
                  "--lr",
                  "0.05",
                  "--save-best",
                  "--checkpoint-every",
                  "7",
                  "--seed",
                  "11"};
  train("whole", odd);
  const auto run = at("run");
  auto process = folder_.start(training("run", odd));
  wait_until(process, [&] {
    return fs::exists(run / "metrics.jsonl") && fs::file_size(run / "metrics.jsonl") > 3000;
  });
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 143) << process.printed();
  EXPECT_TRUE(contains(process.printed(), "and saving\n"));
  const auto [code, printed] = folder_.run({"train", "--out", run.string(), "--resume"});
  EXPECT_EQ(code, 0) << printed;
  EXPECT_TRUE(contains(printed, "resumed after step"));
  expect_equal_runs(run, at("whole"));
  EXPECT_EQ(bytes_of(run / "best.safetensors"), bytes_of(at("whole") / "best.safetensors"));
  EXPECT_EQ(bytes_of(run / "config.json"), bytes_of(at("whole") / "config.json"));
}

TEST_F(TrainCommandTest, ResumeAloneNeedsARun) {
  for (const Words& more : {Words{}, Words{"--epochs", "9"}}) {
    Words command{"train", "--out", at("typo").string(), "--resume"};
    command.insert(command.end(), more.begin(), more.end());
    const auto [code, printed] = folder_.run(command);
    EXPECT_EQ(code, 2);
    EXPECT_TRUE(contains(printed, "there is no run in " + at("typo").string() + " to go on with"));
    EXPECT_FALSE(fs::exists(at("typo")));
  }
}

TEST_F(TrainCommandTest, AFinishedRunIsExtended) {
  train("run");
  const auto [code, printed] =
      folder_.run({"train", "--out", at("run").string(), "--resume", "--epochs", "4"});
  EXPECT_EQ(code, 0) << printed;
  EXPECT_TRUE(contains(printed,
                       "epochs is 4, it was 3: from here on the learning rate is that of "
                       "a cosine over 4 epochs"));
  EXPECT_TRUE(contains(printed, "resumed after step 60 of 80"));
  EXPECT_EQ(metrics_of(at("run")).back()["epoch"], 3);
  EXPECT_TRUE(fs::exists(at("run") / "model.after-3-epochs.safetensors"));
  const auto again = folder_.run({"train", "--out", at("run").string(), "--resume"});
  EXPECT_EQ(again.code, 0);
  EXPECT_TRUE(contains(again.printed, "is finished already; --epochs with more than its 4"));
}

TEST_F(TrainCommandTest, SeedsGoOnTogether) {
  train("runs", {"--seeds", "3,5"});
  const Words alone{"train", "--out", at("runs").string(), "--resume"};
  auto longer = alone;
  longer.insert(longer.end(), {"--epochs", "4", "--json"});
  const auto [code, printed] = folder_.run(longer);
  EXPECT_EQ(code, 0) << printed;
  const auto summary = nlohmann::json::parse(printed.substr(printed.find("{\n")));
  ASSERT_EQ(summary["runs"].size(), 2U);
  for (const auto& run : summary["runs"]) EXPECT_EQ(run["epochs"], 4);

  // One of them was extended when the process was killed: the others follow it.
  auto config = nlohmann::json::parse(bytes_of(at("runs") / "seed-5" / "config.json"));
  config["epochs"] = 5;
  std::ofstream(at("runs") / "seed-5" / "config.json") << config.dump();
  fs::remove(at("runs") / "seed-5" / "model.safetensors");
  const auto resumed = folder_.run(alone);
  EXPECT_EQ(resumed.code, 0) << resumed.printed;
  EXPECT_TRUE(contains(resumed.printed, "mean of 2: "));
  for (const char* seed : {"seed-3", "seed-5"}) {
    EXPECT_EQ(metrics_of(at("runs") / seed).back()["epoch"], 4) << resumed.printed;
  }
}

TEST_F(TrainCommandTest, PatienceEndsARun) {
  const auto [code, printed] =
      train("run", {"--patience", "2", "--epochs", "50", "--optimizer", "sgd", "--lr", "1e-6"});
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(contains(printed, "ended early: test top-1 has not been better than the "));
  EXPECT_LT(metrics_of(at("run")).back()["epoch"].get<int>(), 49);
  const auto again = folder_.run({"train", "--out", at("run").string(), "--resume", "--json"});
  EXPECT_EQ(again.code, 0);
  const auto summary = nlohmann::json::parse(again.printed);
  EXPECT_EQ(summary["finished"], true);
  EXPECT_EQ(summary["ended_early"], true);
}

TEST_F(TrainCommandTest, ARunThatIsNotFinishedCanBeUsed) {
  auto process = folder_.start(training("run", {"--epochs", "1000", "--save-best"}));
  wait_until(process, [&] { return fs::exists(at("run") / "checkpoint.40.safetensors"); });
  process.send(SIGKILL);
  process.wait();
  const auto run = at("run").string();
  adaact::testing::write_jpeg(at("picture.jpg"), adaact::testing::plain_image(40, 40, {200, 0, 0}));
  for (const Words& command : {Words{"eval", "--run", run, "--limit-test", "40"},
                               Words{"predict", "--run", run, at("picture.jpg").string()}}) {
    const auto [code, printed] = folder_.run(command);
    EXPECT_EQ(code, 0);
    EXPECT_TRUE(contains(printed, run + " is not finished: its weights are those after step "));
    EXPECT_TRUE(contains(printed, " %"));
  }
  const auto best = folder_.run({"predict", "--run", run, "--best", at("picture.jpg").string()});
  EXPECT_EQ(best.code, 0);
  EXPECT_FALSE(contains(best.printed, "is not finished"));
  EXPECT_EQ(folder_
                .run({"eval", "--weights", (at("run") / "best.safetensors").string(),
                      "--limit-test", "40"})
                .code,
            0);
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
  EXPECT_TRUE(contains(printed, "; try a smaller learning rate in another folder: --lr 0.1\n"));
  const auto seeds = train("seeds", {"--optimizer", "sgd", "--lr", "1e30", "--seeds", "1"});
  EXPECT_TRUE(contains(seeds.printed, "; try a smaller learning rate in another folder: --lr 0.1"));
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
  const auto mistake = [&](int code, const Words& more) {
    const auto outcome = train("bad", more);
    EXPECT_EQ(outcome.code, code) << outcome.printed;
    EXPECT_FALSE(fs::exists(at("bad")));
    EXPECT_EQ(std::count(outcome.printed.begin(), outcome.printed.end(), '\n'), 1)
        << outcome.printed;
    return outcome.printed;
  };
  EXPECT_TRUE(
      contains(mistake(2, {"--model", "lenet6"}), "--model is 'lenet6', expected one of: "));
  EXPECT_TRUE(contains(mistake(1, {"--dataset", "cifar10", "--data-dir", "/nowhere"}), "/nowhere"));
  EXPECT_TRUE(contains(mistake(2, {"--optimizer", "adamax"}), "--optimizer is 'adamax'"));
  EXPECT_TRUE(contains(mistake(2, {"--lr", "-1"}), "--lr is -1"));
  EXPECT_TRUE(contains(mistake(1, {"--weights", "/nowhere.safetensors"}), "/nowhere.safetensors"));
  EXPECT_TRUE(contains(mistake(2, {"--optimizer-options", "[1]"}), "expected a JSON object"));
  EXPECT_TRUE(contains(mistake(2, {"--lr", "nan"}), "--lr is nan"));
  EXPECT_TRUE(contains(mistake(2, {"--batch-size", "0"}), "--batch-size is 0"));
  EXPECT_TRUE(
      contains(mistake(2, {"--schedule", "multistep", "--milestones", "9"}), "--milestones is 9"));
  EXPECT_TRUE(contains(mistake(2, {"--schedule", "multistep", "--milestones", "2,1"}),
                       "--milestones are [2, 1], expected ascending ones"));
  EXPECT_EQ(folder_.run({"train"}).code, 2);
  EXPECT_EQ(folder_.run({"trian"}).code, 2);
}

}  // namespace
