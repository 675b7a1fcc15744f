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
  EXPECT_TRUE(contains(refusal({"train", "--epochs", "three"}),
                       "--epochs is three, expected a whole number\n"));
  EXPECT_TRUE(contains(refusal({"train", "--epochs", "1,1.5"}),
                       "--epochs is 1,1.5, expected a whole number\n"));
  EXPECT_TRUE(contains(refusal({"train", "--lr", "fast"}), "--lr is fast, expected a number\n"));
  EXPECT_TRUE(contains(refusal({"train", "--milestones", "1,x"}),
                       "--milestones is 1,x, expected whole numbers\n"));
  EXPECT_TRUE(contains(refusal({"train", "--out", at("run").string(), "--model", "lenet"}),
                       "--model is 'lenet', expected one of: "));
  EXPECT_TRUE(contains(refusal({"train", "--out", at("run").string(), "--model", "lenet"}),
                       "did you mean 'lenet5'?"));
  EXPECT_TRUE(contains(refusal({"train", "--out", at("run").string(), "--optimizer", "adact"}),
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
    EXPECT_LE(longest, 100U) << printed;
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
  const auto as_json =
      run({"predict", "--run", at("run").string(), "--json", "/nowhere.png", picture.string()});
  EXPECT_EQ(as_json.code, 1);
  const auto both = json::parse(as_json.printed.substr(as_json.printed.find("[\n")));
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0]["image"], "/nowhere.png");
  EXPECT_TRUE(contains(both[0]["error"], "/nowhere.png"));
  EXPECT_FALSE(both[0].contains("classes"));
  EXPECT_EQ(both[1]["classes"].size(), 5U);
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
  const std::vector<Mistake> wrong_values{
      {with({"--epochs", "0"}), "--epochs is 0, expected 1 to"},
      {with({"--clip-norm", "nan"}), "--clip-norm is nan, expected a number > 0"},
      {with({"--lr", "-1"}), "AdaAct: --lr is -1, expected"},
      {with({"--weight-decay", "-1"}), "AdaAct: --weight-decay is -1, expected"},
      {with({"--optimizer-options", "{bad"}), "--optimizer-options is '{bad', expected a JSON"},
      {with({"--optimizer-options", R"({"momentun": 1})"}), "there is no option 'momentun'"},
      {with({"--data-dir", "/tmp"}), "--data-dir is of use only with a data set that has files"},
      {with({"--warmup-epochs", "5"}),
       "--warmup-epochs is 5, expected less than --epochs, which is 3"},
      {with({"--threads", "100000"}), "--threads is 100000, expected 0 to "},
      {with({"--image-size", "30"}), "--image-size is 30, expected 28 or 32"},
      {with({"--no-batchnorm", "--model", "resnet50"}), "models that can do without"},
      {with({"--workers", "9999"}), "--workers is 9999, expected 0 to 256"},
      {with({"--keep-checkpoints", "-1"}), "--keep-checkpoints is -1, expected 0 to"},
      {with({"--precision", "tf32"}), "--precision is 'tf32', which is of use only with a GPU"},
      {with({"--out", trained, "--resume", "--seed", "3"}),
       "--seed is 3, but the run in " + trained + " has 0; with --resume only"},
      {with({"--device", "cuda:x"}), "--device is 'cuda:x', expected cpu, cuda or cuda:N"},
      {with({"--seeds", "1,2,1"}), "--seeds hold 1 twice"},
      {with({"--graph", "maybe"}), "--graph is 'maybe', expected on or off"},
      {with({"--image-work", "tpu"}), "--image-work is 'tpu', expected cpu, gpu or nvjpeg"},
      {{"bench", "--optimizers", "sgd,adact"}, "did you mean 'adaact'?"},
      {{"bench", "--batch-size", "0"}, "--batch-size is 0, expected 1 to"},
      {{"bench", "--optimizers", "sgd,sgd"}, "name sgd 2 times, expected once"},
      {{"bench", "--graph", "maybe"}, "--graph is 'maybe', expected on or off"},
      {{"bench", "--steps", "1"}, "--steps is 1, expected"},
      {{"bench", "--options-of", "adaact"}, "--options-of: is 'adaact', expected an optimizer and"},
      {{"bench", "--options-of", "adaact={"}, "--options-of: is 'adaact={', expected"},
      {{"bench", "--options-of", "foof={}"}, "--options-of is for 'foof', which is not among"},
      {{"eval", "--run", trained, "--threads", "100000"}, "--threads is 100000, expected"},
  };
  for (const auto& mistake : wrong_values) {
    EXPECT_TRUE(contains(refusal(mistake.arguments), mistake.advice));
  }
  const std::vector<Mistake> mistakes{
      {with({"--dataset", "cifar10"}), "unpack cifar-10-binary.tar.gz from"},
      {with({"--dataset", "image-folder"}), "a folder for each class in train/"},
      {with({"--dataset", "mnist", "--data-dir", at("nothing").string()}),
       "there is no folder " + at("nothing").string() + "; put train-images-idx3-ubyte.gz"},
      {with({"--dataset", "fashion-mnist", "--data-dir", at("begun").string()}),
       "apt-get install dataset-fashion-mnist"},
      {with({"--out", "/proc/run"}), "cannot make the folder /proc/run"},
      {with({"--out", trained}), "resume the run in it (--resume) or name another folder"},
      {with({"--weights", trained + "/config.json"}), "config.json"},
      {{"eval", "--run", "/etc"}, "/etc is no run"},
      {{"eval", "--run", at("begun").string()}, " --resume` goes on with it"},
      {{"predict", "--best", "--run", trained, "x.jpg"}, "`adaact train --save-best` keeps it"},
      {{"eval", "--weights", trained + "/model.safetensors", "--model", "resnet20", "--dataset",
        "synthetic"},
       "does not fit the model: missing: bn1.weight"},
      {{"predict", "--run", trained, at("begun").string()},
       "is a folder, expected a JPEG, PNG or WebP"},
      {{"predict", "--run", trained, trained + "/config.json"}, "is neither JPEG nor PNG"},
      {{"report", at("nothing").string()}, "is no run: there is no such folder"},
      {{"report", "/etc"}, "/etc is no run: there is no config.json in it"},
      {{"report", trained, "--out", "/proc/page.html"}, "/proc"},
      {{"report", trained, "--out", at("begun").string()}, "expected the name of a file"},
  };
  for (const auto& mistake : mistakes) {
    const auto printed = error(mistake.arguments);
    EXPECT_TRUE(contains(printed, mistake.advice));
  }
  EXPECT_FALSE(fs::exists(at("new")));
  EXPECT_TRUE(contains(refusal(with({"--seeds", "1,2", "--seed", "3"})), "--seed"));
  EXPECT_TRUE(contains(refusal(with({"--seeds", "1,-2"})), "is -2, expected a whole number"));
  EXPECT_TRUE(contains(refusal(with({"--seed", "99999999999999999999"})), "that fits 64 bits"));
  EXPECT_TRUE(contains(refusal(with({"--lr", ""})), "--lr"));
  EXPECT_TRUE(contains(refusal(with({"--seed", "-1"})), "is -1, expected a whole number"));
  std::ofstream(at("section.toml")) << "[trian]\nepochs = 1\n";
  EXPECT_TRUE(contains(refusal(with({"--config", at("section.toml").string()})),
                       "gives [trian], which is no command; did you mean 'train'?"));
}

TEST_F(CommandLineTest, TheConfigurationOfARunServesForAnother) {
  auto training = short_training(at("first"));
  training.insert(training.end(), {"--no-augment", "--lr", "0.03", "--milestones", "1,2",
                                   "--schedule", "multistep", "--save-best", "--seed", "4"});
  ASSERT_EQ(run(training).code, 0);
  const auto config = (at("first") / "config.json").string();
  const auto [code, printed] =
      run({"train", "--config", config, "--out", at("second").string(), "--epochs", "2"});
  ASSERT_EQ(code, 0) << printed;
  auto expected = json::parse(std::ifstream(config));
  expected["epochs"] = 2;
  EXPECT_EQ(json::parse(std::ifstream(at("second") / "config.json")), expected);
  EXPECT_TRUE(fs::exists(at("second") / "best.safetensors"));

  // Another optimizer has other options, and several seeds replace the one.
  const auto others = run({"train", "--config", config, "--out", at("third").string(),
                           "--optimizer", "adam", "--seeds", "1,2", "--epochs", "2"});
  ASSERT_EQ(others.code, 0) << others.printed;
  const auto third = json::parse(std::ifstream(at("third") / "seed-2" / "config.json"));
  EXPECT_EQ(third["optimizer_options"]["lr"], 0.001);
  EXPECT_EQ(third["limit_train"], 156);

  std::ofstream(at("bad.json")) << R"({"epochs": "three", "optimizer_options": {}})";
  EXPECT_TRUE(contains(refusal({"train", "--config", at("bad.json").string(), "--out", "x"}),
                       "the configuration file is no configuration of a run"));
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
  const auto in_words = run({"predict", "--run", at("run").string(), picture.string()});
  EXPECT_EQ(std::count(in_words.printed.begin(), in_words.printed.end(), '\xff'), 0);
  const auto two_lines = error({"report", at("one\ntwo").string()});
  EXPECT_TRUE(contains(two_lines, "is no run"));
}

/// A file may be called by what a terminal obeys.
TEST_F(CommandLineTest, NamesOfPicturesDoNotReachTheTerminalAsOrders) {
  run(short_training(at("run")));
  const auto picture = at("red\x1b[31m\r\a.jpg");
  adaact::testing::write_jpeg(picture, plain_image(20, 20, {200, 100, 0}));
  const auto missing = at("no\x1b[31m.jpg");
  const auto [code, printed] =
      run({"predict", "--run", at("run").string(), picture.string(), missing.string()});
  EXPECT_EQ(code, 1);
  EXPECT_TRUE(contains(printed, "red [31m  .jpg\n"));
  EXPECT_TRUE(contains(printed, "no [31m.jpg"));
  EXPECT_TRUE(std::none_of(printed.begin(), printed.end(), [](unsigned char byte) {
    return byte < 0x20 && byte != '\n';
  })) << printed;
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

}  // namespace
