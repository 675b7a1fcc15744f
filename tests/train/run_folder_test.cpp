#include "train/run/run_folder.h"

#include <fstream>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/made_up_run.h"
#include "support/odd_files.h"
#include "support/temporary_folder.h"

namespace {

using adaact::RunConfig;
using adaact::RunFolder;
using adaact::RunSettings;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::made_up_config;
using adaact::testing::make_pipe;
namespace fs = std::filesystem;

RunSettings without_resume() { return {}; }

RunSettings with_resume() {
  RunSettings settings;
  settings.resume = true;
  return settings;
}

class RunFolderTest : public ::testing::Test {
 protected:
  fs::path path() const { return folder_.path() / "run"; }
  void write(const std::string& name) const {
    fs::create_directories(path());
    std::ofstream(path() / name) << "x";
  }
  bool has(const std::string& name) const { return fs::exists(path() / name); }
  std::string refusal(const RunConfig& config = {}) const {
    return error_of([&] { RunFolder(path(), config, with_resume()); });
  }

  adaact::testing::TemporaryFolder folder_;
};

TEST_F(RunFolderTest, LeftoversOfAKilledProcessGo) {
  RunFolder(path(), {}, without_resume());
  for (const char* name : {"checkpoint.12.safetensors.tmp77.1", "model.safetensors.tmp77.2",
                           "config.json.tmp9.1", "notes.tmp", "notes.tmp1.2"}) {
    write(name);
  }
  RunFolder(path(), {}, with_resume());
  EXPECT_FALSE(has("checkpoint.12.safetensors.tmp77.1"));
  EXPECT_FALSE(has("model.safetensors.tmp77.2"));
  EXPECT_FALSE(has("config.json.tmp9.1"));
  EXPECT_TRUE(has("notes.tmp"));
  EXPECT_TRUE(has("notes.tmp1.2"));
}

TEST_F(RunFolderTest, AKillBeforeTheFirstFileIsNoObstacle) {
  write("config.json.tmp9.1");
  RunFolder(path(), {}, with_resume());
  EXPECT_TRUE(has("config.json"));
  EXPECT_FALSE(has("config.json.tmp9.1"));
}

TEST_F(RunFolderTest, SomebodysFolderIsLeftAlone) {
  write("thesis.tmp");
  EXPECT_TRUE(contains(refusal(), "there is no config.json in it"));
  EXPECT_TRUE(has("thesis.tmp"));
  EXPECT_FALSE(has("config.json"));
}

TEST_F(RunFolderTest, PipesInThePlaceOfFilesAreRefused) {
  RunFolder(path(), {}, without_resume());
  make_pipe(path() / "environment.json");
  EXPECT_TRUE(
      contains(error_of([&] { RunFolder(path(), {}, with_resume()).add_environment("cpu"); }),
               "environment.json is a pipe"));
  make_pipe(path() / "config.json");
  EXPECT_TRUE(contains(refusal(), "config.json is a pipe"));
}

TEST_F(RunFolderTest, ARefusalGivesTheLockUp) {
  RunFolder(path(), made_up_config(), without_resume());
  auto other = made_up_config();
  other.batch_size = 9;
  EXPECT_TRUE(contains(refusal(other), "batch_size is 9, there it is 128"));
  const RunFolder folder(path(), made_up_config(), with_resume());
  EXPECT_TRUE(contains(refusal(made_up_config()), "another process is training in"));
}

TEST_F(RunFolderTest, AnEmptyFolderIsFine) {
  fs::create_directories(path());
  RunFolder(path(), {}, without_resume());
  EXPECT_TRUE(has("config.json"));
  EXPECT_TRUE(
      contains(error_of([&] { RunFolder(path(), {}, without_resume()); }), "exists already"));
}

TEST_F(RunFolderTest, AFileIsNoFolder) {
  std::ofstream(path()) << "x";
  EXPECT_TRUE(
      contains(error_of([&] { RunFolder(path(), {}, without_resume()); }), "exists already"));
  EXPECT_TRUE(contains(refusal(), path().string()));
}

TEST_F(RunFolderTest, WhatARunGoesOnAsIsWritten) {
  RunFolder(path(), made_up_config(), without_resume());
  write("model.safetensors");
  auto longer = made_up_config();
  longer.epochs = 9;
  auto settings = with_resume();
  settings.save_best = true;
  const RunFolder folder(path(), longer, settings);
  EXPECT_EQ(folder.begun_as()->epochs, 3);
  EXPECT_EQ(RunConfig::read(path() / "config.json").epochs, 3);  // it does not go on yet
  EXPECT_TRUE(folder.finished());
  folder.go_on_as(longer, settings, 3);
  EXPECT_FALSE(folder.finished());
  EXPECT_TRUE(has("model.after-3-epochs.safetensors"));
  EXPECT_EQ(RunConfig::read(path() / "config.json").epochs, 9);
  EXPECT_TRUE(RunSettings::read(path() / "config.json").save_best);
}

TEST_F(RunFolderTest, AFolderThatCannotBeMadeIsNamed) {
  const auto below_a_file = folder_.path() / "file" / "run";
  std::ofstream(folder_.path() / "file") << "x";
  EXPECT_TRUE(contains(error_of([&] { RunFolder(below_a_file, {}, with_resume()); }),
                       below_a_file.string()));
}

}  // namespace
