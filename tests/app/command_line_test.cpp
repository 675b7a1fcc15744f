// What a person types, and what the tool makes of it.

#include <cstdlib>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/tool.h"
#include "data/image_files.h"
#include "support/errors.h"

namespace {

using adaact::testing::contains;
using adaact::testing::metrics_of;
using adaact::testing::Outcome;
using adaact::testing::plain_image;
using adaact::testing::short_training;
using adaact::testing::tool_command;
using adaact::testing::ToolFolder;
using adaact::testing::Words;
using nlohmann::json;
namespace fs = std::filesystem;

class CommandLineTest : public ::testing::Test {
 protected:
  Outcome run(const Words& arguments) const { return folder_.run(arguments); }
  fs::path at(const std::string& name) const { return folder_.at(name); }

  /// A command line that cannot be followed: one line, exit code 2.
  std::string refusal(const Words& arguments) const {
    const auto [code, printed] = run(arguments);
    EXPECT_EQ(code, 2) << printed;
    EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 1) << printed;
    return printed;
  }
  /// A wish that cannot be fulfilled: one line, exit code 1.
  std::string error(const Words& arguments) const {
    const auto [code, printed] = run(arguments);
    EXPECT_EQ(code, 1) << printed;
    EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 1) << printed;
    return printed;
  }

  ToolFolder folder_;
};

TEST_F(CommandLineTest, NearMissesAreUnderstood) {
  EXPECT_TRUE(contains(refusal({"trian"}), "there is no command 'trian'; did you mean 'train'?"));
  EXPECT_TRUE(contains(refusal({"train", "--modle", "lenet5"}),
                       "there is no option --modle; did you mean '--model'?"));
  EXPECT_TRUE(contains(refusal({"train"}), "--out is required"));
  EXPECT_TRUE(contains(refusal({}), "adaact --help"));
  EXPECT_TRUE(contains(refusal({"train", "--epochs", "three"}), "--epochs"));
  EXPECT_TRUE(contains(error({"train", "--out", at("run").string(), "--model", "lenet"}),
                       "did you mean 'lenet5'?"));
  EXPECT_TRUE(contains(error({"train", "--out", at("run").string(), "--optimizer", "adact"}),
                       "did you mean 'adaact'?"));
}

TEST_F(CommandLineTest, HelpFitsAScreenAndShowsDefaults) {
  for (const std::string command : {"train", "eval", "predict", "bench", "report", "info"}) {
    const auto [code, printed] = run({command, "--help"});
    EXPECT_EQ(code, 0);
    EXPECT_LE(std::count(printed.begin(), printed.end(), '\n'), 60) << printed;
    std::size_t longest = 0;
    std::istringstream lines(printed);
    for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
    EXPECT_LE(longest, 80U) << printed;
  }
  const auto help = run({"train", "--help"}).printed;
  const auto line = [&](const std::string& option) {
    const auto from = help.substr(help.find(option));
    return from.substr(0, from.find('\n'));
  };
  EXPECT_TRUE(contains(line("--accumulation"), "1"));  // its default
  EXPECT_TRUE(contains(line("--batch-size"), "to fit"));
}

TEST_F(CommandLineTest, VersionAndInfo) {
  EXPECT_EQ(run({"--version"}).printed, std::string(ADAACT_VERSION) + "\n");
  const auto [code, printed] = run({"info"});
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(contains(printed, "LibTorch"));
  EXPECT_TRUE(contains(printed, "adaact, adam, adamw"));
  const auto info = json::parse(run({"info", "--json"}).printed);
  EXPECT_GE(info["threads"].get<int>(), 1);
  EXPECT_EQ(info["models"].size(), 9U);
}

TEST_F(CommandLineTest, AConfigurationFileGivesOptionsAndTheCommandLineWins) {
  std::ofstream(at("small.toml")) << "# a comment\n"
                                     "model = \"lenet5\"\n"
                                     "dataset = \"synthetic\"\n"
                                     "limit-train = 32\n"
                                     "limit-test = 8\n"
                                     "epochs = 2\n"
                                     "lr = 0.03\n"
                                     "no-augment = true\n";
  const auto [code, printed] = run({"train", "--config", at("small.toml").string(), "--epochs", "1",
                                    "--out", at("run").string()});
  ASSERT_EQ(code, 0) << printed;
  const auto config = json::parse(std::ifstream(at("run") / "config.json"));
  EXPECT_EQ(config["limit_train"], 32);
  EXPECT_EQ(config["epochs"], 1);
  EXPECT_EQ(config["augment"], false);
  EXPECT_EQ(config["optimizer_options"]["lr"], 0.03);
  EXPECT_TRUE(
      contains(refusal({"train", "--config", "/nowhere.toml", "--out", "x"}), "/nowhere.toml"));
  std::ofstream(at("wrong.toml")) << "modle = \"lenet5\"\n";
  auto training = short_training(at("run2"));
  training.insert(training.end(), {"--config", at("wrong.toml").string()});
  EXPECT_TRUE(
      contains(refusal(training), "gives 'modle', which is no option; did you mean '--model'?"));
}

TEST_F(CommandLineTest, QuietAndJson) {
  auto training = short_training(at("quiet"));
  training.emplace_back("--quiet");
  EXPECT_EQ(run(training).printed, "");
  training = short_training(at("json"));
  training.emplace_back("--json");
  const auto summary = json::parse(run(training).printed);
  EXPECT_EQ(summary["epochs"], 3);
  EXPECT_EQ(summary["finished"], true);
  training.emplace_back("--resume");
  EXPECT_EQ(json::parse(run(training).printed), summary);  // finished already, and said again
  EXPECT_EQ(summary["test_top1"], metrics_of(at("json")).back()["test_top1"]);
  const auto evaluation = json::parse(
      run({"eval", "--run", at("json").string(), "--limit-test", "40", "--json"}).printed);
  EXPECT_EQ(evaluation["top1"], summary["test_top1"]);
  EXPECT_EQ(run({"eval", "--run", at("json").string(), "--limit-test", "40", "--quiet"}).printed,
            "");
  const auto by_weights = json::parse(
      run({"eval", "--weights", summary["model"], "--limit-test", "40", "--json"}).printed);
  EXPECT_EQ(by_weights, evaluation);  // the file says what it is for
  EXPECT_TRUE(contains(refusal({"eval"}), "--run or --weights is required"));
  EXPECT_TRUE(
      contains(refusal({"eval", "--run", "x", "--model", "mlp"}), "--run excludes --model"));
}

TEST_F(CommandLineTest, PredictNamesTheFiveLikeliestClasses) {
  run(short_training(at("run")));
  const auto picture = at("picture.jpg");
  adaact::testing::write_jpeg(picture, plain_image(50, 40, {200, 100, 0}));
  const auto [code, printed] = run({"predict", "--run", at("run").string(), picture.string()});
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(contains(printed, picture.string() + "\n"));
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '%'), 5);
  const auto list = json::parse(
      run({"predict", "--run", at("run").string(), "--json", picture.string(), picture.string()})
          .printed);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["classes"].size(), 5U);
  double last = 1.0;
  for (const auto& each : list[0]["classes"]) {
    EXPECT_LE(each["probability"].get<double>(), last);
    last = each["probability"];
  }
  EXPECT_TRUE(
      contains(error({"predict", "--run", at("nothing").string(), picture.string()}), "is no run"));
  EXPECT_TRUE(
      contains(error({"predict", "--run", at("run").string(), "/nowhere.png"}), "/nowhere.png"));
  const auto mixed =
      run({"predict", "--run", at("run").string(), "/nowhere.png", picture.string()});
  EXPECT_EQ(mixed.code, 1);  // and the other picture is classified all the same
  EXPECT_EQ(std::count(mixed.printed.begin(), mixed.printed.end(), '%'), 5);
}

TEST_F(CommandLineTest, BenchPrintsTheRatios) {
  const auto [code, printed] =
      run({"bench", "--model", "lenet5", "--batch-size", "8", "--optimizers", "adaact,sgd,adam",
           "--steps", "5", "--threads", "1", "--json"});
  ASSERT_EQ(code, 0) << printed;
  const auto result = json::parse(printed);
  EXPECT_FALSE(result.contains("gpu"));
  const auto& list = result["optimizers"];
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[1]["optimizer"], "sgd");
  EXPECT_EQ(list[1]["ratio_to_sgd"], 1.0);
  for (const auto& each : list) {
    for (const char* key : {"ms_per_step", "ratio_to_sgd", "images_per_second", "state_bytes",
                            "peak_bytes", "peak_ratio_to_sgd"}) {
      EXPECT_GT(each[key].get<double>(), 0.0) << key;
    }
  }
}

TEST_F(CommandLineTest, MistakesSayWhatToDo) {
  run(short_training(at("run")));
  const auto trained = at("run").string();
  fs::create_directories(at("begun"));
  fs::copy(at("run") / "config.json", at("begun"));
  const auto with = [this](const Words& more) {
    auto training = short_training(at("new"));
    training.insert(training.end(), more.begin(), more.end());
    return training;
  };
  struct Mistake {
    Words arguments;
    std::string advice;
  };
  const std::vector<Mistake> mistakes{
      {with({"--epochs", "0"}), "epochs is 0, expected 1 to"},
      {with({"--clip-norm", "nan"}), "--clip-norm is nan, expected a number > 0"},
      {with({"--lr", "-1"}), "lr is -1, expected"},
      {with({"--optimizer-options", "{bad"}), "the optimizer's options are no JSON: {bad"},
      {with({"--data-dir", "/tmp"}), "--data-dir is of use only with a data set that has files"},
      {with({"--dataset", "cifar10"}), "expected the folder of the data"},
      {with({"--dataset", "mnist", "--data-dir", at("nothing").string()}), at("nothing").string()},
      {with({"--out", "/proc/run"}), "cannot make the folder /proc/run"},
      {with({"--out", trained}), "resume the run in it (--resume) or name another folder"},
      {with({"--out", trained, "--resume", "--seed", "3"}),
       "name another folder or give the same options"},
      {with({"--weights", trained + "/config.json"}), "config.json"},
      {{"eval", "--run", "/etc"}, "/etc is no run"},
      {{"eval", "--run", at("begun").string()}, "`adaact train --resume` goes on with it"},
      {{"eval", "--weights", trained + "/model.safetensors", "--model", "resnet20", "--dataset",
        "synthetic"},
       "does not fit the model: missing: bn1.weight"},
      {{"predict", "--run", trained, at("begun").string()}, "is a folder, expected a JPEG or PNG"},
      {{"predict", "--run", trained, trained + "/config.json"}, "is neither JPEG nor PNG"},
      {{"report", at("nothing").string()}, "is no run: there is no such folder"},
      {{"report", "/etc"}, "/etc is no run: there is no config.json in it"},
      {{"report", trained, "--out", "/proc/page.html"}, "/proc"},
      {{"report", trained, "--out", at("begun").string()}, "expected the name of a file"},
      {{"bench", "--optimizers", "sgd,adact"}, "did you mean 'adaact'?"},
      {{"bench", "--batch-size", "0"}, "--batch-size is 0, expected 1 to"},
      {{"bench", "--optimizers", "sgd,sgd"}, "name sgd 2 times, expected once"},
      {{"bench", "--graph", "maybe"}, "graph is 'maybe', expected on or off"},
      {with({"--graph", "maybe"}), "graph is 'maybe', expected on or off"},
  };
  for (const auto& mistake : mistakes) {
    const auto printed = error(mistake.arguments);
    EXPECT_TRUE(contains(printed, mistake.advice));
  }
  EXPECT_FALSE(fs::exists(at("new")));
  EXPECT_TRUE(contains(error(with({"--device", "cuda:x"})), "expected cpu, cuda or cuda:N"));
  EXPECT_TRUE(contains(refusal(with({"--seeds", "1,2", "--seed", "3"})), "--seed"));
  EXPECT_TRUE(contains(refusal(with({"--seeds", "1,-2"})), "is -2, expected a whole number"));
  EXPECT_TRUE(contains(refusal(with({"--seed", "99999999999999999999"})), "that fits 64 bits"));
  EXPECT_TRUE(contains(error(with({"--seeds", "1,2,1"})), "seeds hold 1 twice"));
  EXPECT_TRUE(contains(refusal(with({"--lr", ""})), "--lr"));
  EXPECT_TRUE(contains(refusal(with({"--seed", "-1"})), "is -1, expected a whole number"));
  std::ofstream(at("section.toml")) << "[trian]\nepochs = 1\n";
  EXPECT_TRUE(contains(refusal(with({"--config", at("section.toml").string()})),
                       "gives [trian], which is no command; did you mean 'train'?"));
}

TEST_F(CommandLineTest, NothingIsLostToAnOddName) {
  run(short_training(at("run")));
  const auto picture = at("bad\xff.jpg");
  adaact::testing::write_jpeg(picture, plain_image(20, 20, {200, 100, 0}));
  const auto [code, printed] =
      run({"predict", "--run", at("run").string(), "--json", picture.string()});
  EXPECT_EQ(code, 0) << printed;
  EXPECT_EQ(json::parse(printed)[0]["classes"].size(), 5U);
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\xff'), 0);
  const auto two_lines = error({"report", at("one\ntwo").string()});
  EXPECT_TRUE(contains(two_lines, "is no run"));
}

TEST_F(CommandLineTest, AResultThatCannotBePrintedIsAnError) {
  std::string line;
  for (const auto& word : tool_command({"info", "--json"})) line += word + " ";
  const auto [code, printed] = folder_.run_command({"bash", "-c", line + "> /dev/full"});
  EXPECT_EQ(code, 1);
  EXPECT_TRUE(contains(printed, "not everything could be printed: No space left on device"));
}

TEST_F(CommandLineTest, AReportNeedsGnuplot) {
  run(short_training(at("run")));
  // Without gnuplot on the PATH.
  auto command = tool_command({"report", at("run").string(), "--out", at("page.html").string()});
  command.insert(command.begin(), {"env", "PATH=/nowhere"});
  command[0] = "/usr/bin/env";
  const auto [code, printed] = folder_.run_command(command);
  EXPECT_EQ(code, 1);
  EXPECT_TRUE(contains(printed, "apt-get install gnuplot"));
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 1) << printed;
}

TEST_F(CommandLineTest, ATerminalShowsABar) {
  std::string line;
  for (const auto& word : tool_command(short_training(at("run")))) line += word + " ";
  const auto [code, printed] =
      folder_.run_command({"script", "--quiet", "--return", "--command", line, "/dev/null"});
  EXPECT_EQ(code, 0) << printed;
  EXPECT_TRUE(contains(printed, "epoch 1/3 ["));
  EXPECT_TRUE(contains(printed, "images/s"));
  EXPECT_TRUE(contains(printed, " left"));
  EXPECT_EQ(folder_.run(short_training(at("piped"))).printed.find('\r'), std::string::npos);
}

}  // namespace
