#include "train/run/run_folder.h"

#include <fstream>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/odd_files.h"
#include "support/temporary_folder.h"

namespace {

using adaact::RunConfig;
using adaact::RunFolder;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::make_pipe;
namespace fs = std::filesystem;

class RunFolderTest : public ::testing::Test {
 protected:
  fs::path path() const { return folder_.path() / "run"; }
  void write(const std::string& name) const {
    fs::create_directories(path());
    std::ofstream(path() / name) << "x";
  }
  bool has(const std::string& name) const { return fs::exists(path() / name); }
  std::string refusal(const RunConfig& config = {}) const {
    return error_of([&] { RunFolder(path(), config, /*resume=*/true); });
  }

  adaact::testing::TemporaryFolder folder_;
};

TEST_F(RunFolderTest, LeftoversOfAKilledProcessGo) {
  RunFolder(path(), {}, /*resume=*/false);
  for (const char* name : {"checkpoint.12.safetensors.tmp77.1", "model.safetensors.tmp77.2",
                           "config.json.tmp9.1", "notes.tmp", "notes.tmp1.2"}) {
    write(name);
  }
  RunFolder(path(), {}, /*resume=*/true);
  EXPECT_FALSE(has("checkpoint.12.safetensors.tmp77.1"));
  EXPECT_FALSE(has("model.safetensors.tmp77.2"));
  EXPECT_FALSE(has("config.json.tmp9.1"));
  EXPECT_TRUE(has("notes.tmp"));
  EXPECT_TRUE(has("notes.tmp1.2"));
}

TEST_F(RunFolderTest, AKillBeforeTheFirstFileIsNoObstacle) {
  write("config.json.tmp9.1");
  RunFolder(path(), {}, /*resume=*/true);
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
  RunFolder(path(), {}, /*resume=*/false);
  make_pipe(path() / "environment.json");
  EXPECT_TRUE(
      contains(error_of([&] { RunFolder(path(), {}, /*resume=*/true).add_environment("cpu"); }),
               "environment.json is a pipe"));
  make_pipe(path() / "config.json");
  EXPECT_TRUE(contains(refusal(), "config.json is a pipe"));
}

TEST_F(RunFolderTest, ARefusalGivesTheLockUp) {
  RunFolder(path(), {}, /*resume=*/false);
  RunConfig other;
  other.epochs = 9;
  EXPECT_TRUE(contains(refusal(other), "epochs is 9, there it is 3"));
  const RunFolder folder(path(), {}, /*resume=*/true);
  EXPECT_TRUE(contains(refusal(), "another process is training in"));
}

TEST_F(RunFolderTest, AFolderThatCannotBeMadeIsNamed) {
  const auto below_a_file = folder_.path() / "file" / "run";
  std::ofstream(folder_.path() / "file") << "x";
  EXPECT_TRUE(contains(error_of([&] { RunFolder(below_a_file, {}, /*resume=*/true); }),
                       below_a_file.string()));
}

}  // namespace
