#include "train/run/checkpoint_store.h"

#include <fstream>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/odd_files.h"
#include "support/temporary_folder.h"
#include "train/run/append_log.h"

namespace {

using adaact::AppendLog;
using adaact::CheckpointStore;
using adaact::TensorFile;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::make_pipe;
using adaact::testing::TemporaryFolder;
namespace fs = std::filesystem;

TensorFile file_with(double value) {
  TensorFile file;
  file.tensors["value"] = torch::tensor(value);
  return file;
}

class CheckpointStoreTest : public ::testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      found.push_back(entry.path().filename().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  auto load() {
    return store_.load_newest([this](const std::string& line) { warnings_.push_back(line); });
  }
  void damage(const std::string& name) const {
    std::fstream file(folder_.path() / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7F');
  }

  TemporaryFolder folder_;
  CheckpointStore store_{folder_.path()};
  std::vector<std::string> warnings_;
};

TEST_F(CheckpointStoreTest, KeepsTheLastTwo) {
  for (const int step : {5, 20, 100}) store_.save(step, file_with(step));
  const std::vector<std::string> expected{"checkpoint.100.safetensors",
                                          "checkpoint.20.safetensors"};
  EXPECT_EQ(names(), expected);
  const auto newest = load();
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, 100);
  EXPECT_EQ(newest->checkpoint.at("value").item<double>(), 100.0);
}

TEST_F(CheckpointStoreTest, KeepsMoreOrFewerWhereAskedFor) {
  const CheckpointStore generous(folder_.path(), 3);
  for (const int step : {1, 2, 3, 4}) generous.save(step, file_with(step));
  EXPECT_EQ(names().size(), 3U);
  generous.keep_newest(1);
  EXPECT_EQ(names(), std::vector<std::string>{"checkpoint.4.safetensors"});
  generous.keep_newest(0);
  EXPECT_TRUE(names().empty());
  const CheckpointStore stingy(folder_.path(), 0);  // while a run runs
  for (const int step : {1, 2, 3}) stingy.save(step, file_with(step));
  EXPECT_EQ(names().size(), 2U);
}

TEST_F(CheckpointStoreTest, TheNewestIsFoundWithoutAChangeToTheFolder) {
  EXPECT_FALSE(store_.find_newest());
  store_.save(1, file_with(1));
  store_.save(2, file_with(2));
  EXPECT_EQ(store_.find_newest()->step, 2);
  damage("checkpoint.2.safetensors");
  EXPECT_EQ(store_.find_newest()->path, folder_.path() / "checkpoint.1.safetensors");
  EXPECT_EQ(names().size(), 2U);
  damage("checkpoint.1.safetensors");
  EXPECT_FALSE(store_.find_newest());
}

TEST_F(CheckpointStoreTest, ADamagedNewestFallsBackToTheOlder) {
  store_.save(1, file_with(1));
  store_.save(2, file_with(2));
  damage("checkpoint.2.safetensors");
  const auto newest = load();
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, 1);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_TRUE(contains(warnings_[0], "checkpoint.2.safetensors"));
}

TEST_F(CheckpointStoreTest, AfterAFallbackTheLastTwoWholeOnesAreKept) {
  // Killed before the oldest was removed, and then the two newest are damaged.
  store_.save(20, file_with(20));
  store_.save(30, file_with(30));
  file_with(10).write(folder_.path() / "checkpoint.10.safetensors");
  damage("checkpoint.20.safetensors");
  damage("checkpoint.30.safetensors");
  EXPECT_EQ(load()->step, 10);
  EXPECT_EQ(warnings_.size(), 2U);
  store_.save(15, file_with(15));
  EXPECT_EQ(load()->step, 15);
  damage("checkpoint.15.safetensors");
  EXPECT_EQ(load()->step, 10);
}

TEST_F(CheckpointStoreTest, OnlyDamagedOnesAreAnErrorThatNamesAll) {
  store_.save(1, file_with(1));
  store_.save(2, file_with(2));
  damage("checkpoint.1.safetensors");
  damage("checkpoint.2.safetensors");
  const auto error = error_of([&] { load(); });
  EXPECT_TRUE(contains(error, "checkpoint.1.safetensors"));
  EXPECT_TRUE(contains(error, "checkpoint.2.safetensors"));
}

TEST_F(CheckpointStoreTest, WhatIsNoFileIsAnErrorAndLeftAsItIs) {
  store_.save(1, file_with(1));
  const auto pipe = make_pipe(folder_.path() / "checkpoint.2.safetensors");
  EXPECT_TRUE(contains(error_of([&] { load(); }), pipe.string() + " is a pipe"));
  EXPECT_TRUE(fs::is_fifo(pipe));
  fs::remove(pipe);
  fs::create_directory(pipe);
  EXPECT_TRUE(contains(error_of([&] { load(); }), pipe.string() + " is a folder"));
}

TEST_F(CheckpointStoreTest, NoneIsNoError) { EXPECT_FALSE(load()); }

TEST(AppendLog, IsCutWhereACheckpointWasTaken) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "log";
  {
    AppendLog log(path, 0);
    log.append("one\ntwo\n");
    EXPECT_EQ(log.size(), 8);
    log.append("three\n");
  }
  {
    AppendLog log(path, 8);
    log.append("THREE\n");
  }
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, "one\ntwo\nTHREE\n");
}

TEST(AppendLog, APipeIsNotWaitedFor) {
  const TemporaryFolder folder;
  const auto pipe = make_pipe(folder.path() / "metrics.jsonl");
  EXPECT_TRUE(contains(error_of([&] { AppendLog(pipe, 0); }), pipe.string() + " is a pipe"));
}

TEST(AppendLog, AShorterFileIsAnError) {
  const TemporaryFolder folder;
  EXPECT_TRUE(contains(error_of([&] { AppendLog(folder.path() / "log", 8); }),
                       "has 0 bytes, expected at least 8"));
}

}  // namespace
