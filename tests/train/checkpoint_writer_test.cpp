#include "train/run/checkpoint_writer.h"

#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/temporary_folder.h"

namespace {

using adaact::CheckpointStore;
using adaact::CheckpointWriter;
using adaact::TensorFile;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::TemporaryFolder;
namespace fs = std::filesystem;

TEST(CheckpointWriter, WritesWhatWasThereWhenItBegan) {
  const TemporaryFolder folder;
  const CheckpointStore store(folder.path());
  // So large that training changes it before it is written.
  const auto weights = torch::zeros({1 << 20});
  {
    CheckpointWriter writer(store);
    for (const int step : {1, 2}) {
      weights.fill_(step);
      TensorFile file;
      file.tensors["weights"] = weights;
      writer.begin(step, file);
      weights.fill_(-1.0);
    }
  }
  const auto newest = store.load_newest([](const std::string& warning) { FAIL() << warning; });
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, 2);
  EXPECT_TRUE(newest->checkpoint.at("weights").eq(2.0).all().item<bool>());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
}

TEST(CheckpointWriter, AnErrorIsToldOnce) {
  const TemporaryFolder folder;
  const CheckpointStore store(folder.path() / "gone");
  CheckpointWriter writer(store);
  writer.begin(7, {});
  EXPECT_TRUE(contains(error_of([&] { writer.finish(); }), "checkpoint.7.safetensors"));
  EXPECT_NO_THROW(writer.finish()) << "it was told";
}

TEST(CheckpointWriter, AnErrorIsFoundWithoutWaiting) {
  const TemporaryFolder folder;
  const CheckpointStore store(folder.path() / "gone");
  CheckpointWriter writer(store);
  EXPECT_NO_THROW(writer.check());
  writer.begin(7, {});
  const auto ask_again_and_again = [&] {
    for (int time = 0; time < 10000; ++time) {
      writer.check();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  EXPECT_TRUE(contains(error_of(ask_again_and_again), "checkpoint.7.safetensors"));
  EXPECT_NO_THROW(writer.check()) << "it was told";
}

/// An error that was told only by not writing what came next lost the work of two periods.
TEST(CheckpointWriter, AnErrorDoesNotKeepTheNextCheckpointFromTheDisk) {
  const TemporaryFolder folder;
  const auto place = [&](int step) {
    return folder.path() / ("checkpoint." + std::to_string(step) + ".safetensors");
  };
  fs::create_directory(place(8));  // no file takes the place of a folder
  const CheckpointStore store(folder.path());
  CheckpointWriter writer(store);
  writer.begin(8, {});
  EXPECT_TRUE(contains(error_of([&] { writer.begin(9, {}); }), "checkpoint.8.safetensors"));
  EXPECT_TRUE(fs::is_regular_file(place(9)));
  EXPECT_NO_THROW(writer.finish()) << "it was told";
}

TEST(CheckpointWriter, OfTwoErrorsTheFirstIsTold) {
  const TemporaryFolder folder;
  const auto gone = folder.path() / "gone";
  const CheckpointStore store(gone);
  CheckpointWriter writer(store);
  writer.begin(8, {});
  EXPECT_TRUE(contains(error_of([&] { writer.begin(9, {}); }), "checkpoint.8.safetensors"));
  fs::create_directory(gone);
  writer.begin(10, {});
  writer.finish();
  EXPECT_TRUE(fs::exists(gone / "checkpoint.10.safetensors"));
}

}  // namespace
