#include <adaact/report/run_history.h>

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "report/named_runs.h"
#include "support/errors.h"
#include "support/made_up_run.h"
#include "support/odd_files.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace {

using adaact::NamedRun;
using adaact::read_runs;
using adaact::RunHistory;
using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::diverged_run;
using adaact::testing::error_of;
using adaact::testing::made_up_epoch;
using adaact::testing::made_up_step;
using adaact::testing::MadeUpRun;
using adaact::testing::make_pipe;
using adaact::testing::TemporaryFolder;
using adaact::testing::write_run;
namespace fs = std::filesystem;

/// A safetensors file of a header alone.
void write_header(const fs::path& path, const std::string& header) {
  const std::uint64_t length = header.size();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(&length), sizeof length)
      .write(header.data(), static_cast<std::streamsize>(header.size()));
}

class RunHistoryTest : public ::testing::Test {
 protected:
  fs::path made(const std::string& name, const MadeUpRun& run = {}) const {
    write_run(folder_.path() / name, run);
    return folder_.path() / name;
  }
  static void append(const fs::path& run, const std::string& text) {
    std::ofstream(run / "metrics.jsonl", std::ios::app) << text;
  }

  TemporaryFolder folder_;
};

TEST_F(RunHistoryTest, ReadsAFinishedRun) {
  MadeUpRun run;
  run.config.model = "resnet20";
  const auto history = RunHistory::read(made("run", run));
  EXPECT_EQ(history.config.model, "resnet20");
  ASSERT_EQ(history.steps.size(), 30U);
  EXPECT_EQ(history.steps[3].step, 4);
  EXPECT_DOUBLE_EQ(history.steps[3].loss, 0.5);
  EXPECT_DOUBLE_EQ(history.seconds(), 15.0);
  ASSERT_EQ(history.epochs.size(), 3U);
  EXPECT_DOUBLE_EQ(history.epochs[2].test.top1, 0.75);
  EXPECT_EQ(history.best_epoch(), &history.epochs[2]);
  EXPECT_DOUBLE_EQ(history.steps_per_epoch().value(), 10.0);
  EXPECT_TRUE(history.finished);
  EXPECT_EQ(history.parameters, 24);  // without the buffer
}

TEST_F(RunHistoryTest, ReadsWhatIsKeptOfAFinishedRun) {
  MadeUpRun kept;
  kept.finished = false;  // without its model
  const auto run = made("run", kept);
  std::ofstream metrics(run / "metrics.jsonl");
  for (int epoch = 0; epoch < kept.epochs; ++epoch) metrics << made_up_epoch(kept, epoch) << "\n";
  metrics.close();
  const auto history = RunHistory::read(run);
  EXPECT_TRUE(history.finished);
  EXPECT_DOUBLE_EQ(history.seconds(), 15.0);
  EXPECT_FALSE(history.parameters.has_value());
}

TEST_F(RunHistoryTest, MayLeaveStepsOut) {
  const auto run = made("run");
  const auto all = RunHistory::read(run);
  const auto epochs = RunHistory::read(run, RunHistory::Detail::WithoutSteps);
  EXPECT_TRUE(epochs.steps.empty());
  EXPECT_EQ(epochs.epochs.size(), all.epochs.size());
  EXPECT_DOUBLE_EQ(epochs.seconds(), all.seconds());
}

TEST_F(RunHistoryTest, ReadsActivationVariances) {
  const auto run = made("run");
  auto epoch = made_up_epoch({}, 3);
  epoch["activation_variances"]["fc.weight"] = {
      {"mean", 2.0},    {"lowest_mean", 1.0},   {"highest_mean", 3.0},   {"lowest", 0.0},
      {"highest", 9.0}, {"lowest_moment", 0.5}, {"highest_moment", 12.0}};
  append(run, epoch.dump() + "\n");
  const auto history = RunHistory::read(run);
  EXPECT_TRUE(history.epochs.front().activation_variances.empty());
  const auto& variances = history.epochs.back().activation_variances;
  ASSERT_EQ(variances.size(), 1U);
  EXPECT_EQ(variances[0].layer, "fc.weight");
  EXPECT_DOUBLE_EQ(variances[0].mean, 2.0);
  EXPECT_DOUBLE_EQ(variances[0].highest, 9.0);
  EXPECT_DOUBLE_EQ(variances[0].lowest_moment, 0.5);
  EXPECT_DOUBLE_EQ(variances[0].highest_moment, 12.0);
}

TEST_F(RunHistoryTest, ReadsActivationVariancesOfEarlierVersions) {
  const auto run = made("run");
  auto epoch = made_up_epoch({}, 3);
  epoch["activation_variances"]["fc.weight"] = {{"mean", 2.0},         {"lowest_mean", 1.0},
                                                {"highest_mean", 3.0}, {"lowest", 0.0},
                                                {"highest", 9.0},      {"second_moment", 4.0}};
  append(run, epoch.dump() + "\n");
  const auto variance = RunHistory::read(run).epochs.back().activation_variances.at(0);
  EXPECT_DOUBLE_EQ(variance.highest, 9.0);
  EXPECT_TRUE(std::isnan(variance.lowest_moment));
  EXPECT_TRUE(std::isnan(variance.highest_moment));
}

TEST_F(RunHistoryTest, KeepsLayersInTheOrderOfTheModel) {
  MadeUpRun run;
  run.layers = {"stem.weight", "a.weight", "head.weight"};
  const auto history = RunHistory::read(made("run", run));
  const auto& moments = history.epochs[0].second_moments;
  ASSERT_EQ(moments.size(), 3U);
  EXPECT_EQ(moments[0].first, "stem.weight");
  EXPECT_EQ(moments[1].first, "a.weight");
  EXPECT_EQ(moments[2].first, "head.weight");
}

TEST_F(RunHistoryTest, LeavesOutALastLineThatIsHalfWritten) {
  const auto run = made("run");
  const auto line = made_up_step(31, 3).dump();
  append(run, line.substr(0, line.size() / 2));
  EXPECT_EQ(RunHistory::read(run).steps.size(), 30U);
}

TEST_F(RunHistoryTest, TakesAWholeLastLineWithoutItsEnd) {
  const auto run = made("run");
  append(run, made_up_step(31, 3).dump());
  EXPECT_EQ(RunHistory::read(run).steps.size(), 31U);
}

TEST_F(RunHistoryTest, LinesThatAreTooDeepOrHoldNoCountsAreNamed) {
  const auto refusal = [&](const std::string& line) {
    const auto run = made("run");
    append(run, line + "\n");
    return error_of([&] { RunHistory::read(run); });
  };
  EXPECT_TRUE(contains(refusal(adaact::testing::deep_json()),
                       "metrics.jsonl, line 34 is damaged: no JSON: it is nested deeper than"));
  for (const char* value : {"-1", "1.5", "1e300", "9223372036854775807", "null"}) {
    auto step = made_up_step(31, 3);
    step["epoch"] = nlohmann::json::parse(value);
    EXPECT_TRUE(contains(refusal(step.dump()),
                         "line 34 is no record of a run: epoch is " + step["epoch"].dump()));
  }
}

/// Minutes, if each of the layers were looked for among those before it.
TEST_F(RunHistoryTest, ManyLayersAreRead) {
  constexpr std::int64_t kLayers = 300'000;
  const auto run = made("run");
  auto epoch = made_up_epoch({}, 3).dump();
  std::string moments = "{";
  std::string header = "{";
  for (std::int64_t i = 0; i < kLayers; ++i) {
    const auto name = (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":";
    moments += name + "1";
    header += name + "{\"shape\":[1]}";
  }
  const std::string before = "\"second_moments\":";
  epoch.resize(epoch.find(before) + before.size());
  append(run, epoch + moments + "}}\n");
  header += "}";
  write_header(run / "model.safetensors", header);
  const auto history = RunHistory::read(run);
  EXPECT_EQ(history.epochs.back().second_moments.size(), 300'000U);
  EXPECT_EQ(history.parameters, kLayers);
}

TEST_F(RunHistoryTest, PipesInThePlaceOfFilesAreRefused) {
  const auto run = made("run");
  fs::remove(run / "model.safetensors");
  make_pipe(run / "model.safetensors");
  EXPECT_FALSE(RunHistory::read(run).parameters.has_value());
  make_pipe(run / "metrics.jsonl");
  EXPECT_TRUE(contains(error_of([&] { RunHistory::read(run); }), "metrics.jsonl is a pipe"));
  make_pipe(run / "config.json");
  EXPECT_TRUE(contains(error_of([&] { RunHistory::read(run); }), "config.json is a pipe"));
}

TEST_F(RunHistoryTest, AnAbsurdHeaderIsNotCounted) {
  const auto run = made("run");
  for (const char* header : {R"({"a":{"shape":[4611686018427387904,4611686018427387904]}})",
                             R"({"a":{"shape":[-4]}})", R"({"a":{"shape":[1.5]}})", "[]", "{"}) {
    write_header(run / "model.safetensors", header);
    EXPECT_FALSE(RunHistory::read(run).parameters.has_value()) << header;
  }
  std::ofstream(run / "model.safetensors")
      << std::string(8, '\x05');  // of bytes that are not there
  EXPECT_FALSE(RunHistory::read(run).parameters.has_value());
}

TEST_F(RunHistoryTest, ReadsARunThatHasJustBegun) {
  const auto run = folder_.path() / "begun";
  fs::create_directories(run);
  std::ofstream(run / "config.json") << adaact::RunConfig().to_json();
  const auto history = RunHistory::read(run);
  EXPECT_TRUE(history.steps.empty());
  EXPECT_EQ(history.best_epoch(), nullptr);
  EXPECT_FALSE(history.steps_per_epoch().has_value());
  EXPECT_FALSE(history.finished);
  EXPECT_FALSE(history.parameters.has_value());
}

TEST_F(RunHistoryTest, TakesALossThatIsNotFinite) {
  const auto run = made("run");
  auto step = made_up_step(31, 3);
  step["loss"] = nullptr;
  append(run, step.dump() + "\n");
  EXPECT_TRUE(std::isnan(RunHistory::read(run).steps.back().loss));
}

TEST_F(RunHistoryTest, ReadsARunThatDiverged) {
  const auto run = made("run", diverged_run({}, 1));
  for (const auto detail : {RunHistory::Detail::Everything, RunHistory::Detail::WithoutSteps}) {
    const auto history = RunHistory::read(run, detail);
    ASSERT_TRUE(history.divergence);
    EXPECT_EQ(history.divergence->step, 15);
    EXPECT_EQ(history.divergence->epoch, 1);
    EXPECT_EQ(history.divergence->message, "SGD: the gradient of 'conv1.weight' is not finite");
    EXPECT_EQ(history.epochs.size(), 1U);
    EXPECT_FALSE(history.finished);
  }
  EXPECT_FALSE(RunHistory::read(made("whole")).divergence);
}

TEST_F(RunHistoryTest, PassesOverRecordsOfAnotherKind) {
  const auto run = made("run");
  append(run, "{\"kind\":\"photograph\"}\n");
  EXPECT_EQ(RunHistory::read(run).steps.size(), 30U);
}

TEST_F(RunHistoryTest, NamesTheLineOfADamagedRecord) {
  const auto run = made("run");
  append(run, "{\"kind\":\"ste\n" + made_up_step(31, 3).dump() + "\n");
  const auto error = error_of([&] { RunHistory::read(run); });
  EXPECT_TRUE(contains(error, (run / "metrics.jsonl").string() + ", line 34 is damaged"));
}

TEST_F(RunHistoryTest, NamesTheLineOfARecordThatLacksSomething) {
  const auto run = made("run");
  append(run, "{\"kind\":\"step\",\"step\":31}\n");
  const auto error = error_of([&] { RunHistory::read(run); });
  EXPECT_TRUE(contains(error, "line 34 is no record of a run"));
  EXPECT_TRUE(contains(error, "epoch"));
}

TEST_F(RunHistoryTest, NamesWhatIsNoRun) {
  const auto absent = folder_.path() / "absent";
  EXPECT_TRUE(contains(error_of([&] { RunHistory::read(absent); }),
                       absent.string() + " is no run: there is no such folder"));
  EXPECT_TRUE(contains(error_of([&] { RunHistory::read(folder_.path()); }),
                       "is no run: there is no config.json in it"));
  std::ofstream(folder_.path() / "file") << "x";
  EXPECT_TRUE(contains(error_of([&] { RunHistory::read(folder_.path() / "file"); }),
                       "is no run: it is a file"));
}

TEST_F(RunHistoryTest, DoesWithoutTheNumberOfParametersIfWeightsAreDamaged) {
  const auto run = made("run");
  for (const std::string bytes :
       {"", "short", "\xff\xff\xff\xff\xff\xff\xff\xff", "\2\0\0\0\0\0\0\0[]"}) {
    std::ofstream(run / "model.safetensors", std::ios::binary) << bytes;
    EXPECT_FALSE(RunHistory::read(run).parameters.has_value());
  }
}

TEST_F(RunHistoryTest, RunsAreCalledByTheirFolders) {
  const auto runs = read_runs({made("first"), made("second") / ""});
  EXPECT_EQ(runs[0].name, "first");
  EXPECT_EQ(runs[1].name, "second");
}

TEST_F(RunHistoryTest, RunsOfTheSameNameHaveTheirParentsToo) {
  const auto runs = read_runs({made("a/run"), made("b/run"), made("c")});
  EXPECT_EQ(runs[0].name, "a/run");
  EXPECT_EQ(runs[1].name, "b/run");
  EXPECT_EQ(runs[2].name, "c");
}

TEST_F(RunHistoryTest, ARunThatIsNamedTwiceIsOne) {
  const auto run = made("run");
  EXPECT_EQ(read_runs({run, run / "." / ""}).size(), 1U);
}

TEST_F(RunHistoryTest, NoRunsAreAnError) {
  EXPECT_TRUE(contains(error_of([] { read_runs({}); }), "name at least one folder"));
}

}  // namespace
