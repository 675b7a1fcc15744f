#include "report/find_runs.h"

#include <fstream>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/made_up_run.h"
#include "support/temporary_folder.h"

namespace {

using adaact::Absence;
using adaact::find_runs;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::TemporaryFolder;
using adaact::testing::write_run;
namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;

class FindRunsTest : public ::testing::Test {
 protected:
  fs::path made(const std::string& name) const {
    write_run(at(name), {});
    return at(name);
  }
  fs::path at(const std::string& name) const { return folder_.path() / name; }

  TemporaryFolder folder_;
};

TEST_F(FindRunsTest, ARunIsItself) { EXPECT_EQ(find_runs({made("run")}), Paths{at("run")}); }

TEST_F(FindRunsTest, RunsBelowAFolderAreInTheOrderOfTheirNumbers) {
  for (const char* name : {"seed-10", "seed-9", "seed-0", "other/deep/run"})
    made("all/" + std::string(name));
  EXPECT_EQ(find_runs({at("all")}), (Paths{at("all/other/deep/run"), at("all/seed-0"),
                                           at("all/seed-9"), at("all/seed-10")}));
}

TEST_F(FindRunsTest, ARunThatIsNamedAndFoundIsThereOnce) {
  made("all/a");
  made("all/b");
  fs::create_directory_symlink(at("all/a"), at("link"));
  EXPECT_EQ(find_runs({at("all/b"), at("all"), at("link"), at("all") / "." / "b" / ""}),
            (Paths{at("all/b"), at("all/a")}));
}

TEST_F(FindRunsTest, WhatLiesWithinARunIsItsOwnMatter) {
  made("run");
  made("run/within");
  EXPECT_EQ(find_runs({folder_.path()}), Paths{at("run")});
}

TEST_F(FindRunsTest, OthersHaveAConfigurationToo) {
  made("run");
  fs::create_directories(at("foreign"));
  std::ofstream(at("foreign") / "config.json") << "{}";
  EXPECT_EQ(find_runs({folder_.path()}), Paths{at("run")});
}

TEST_F(FindRunsTest, LinksHiddenFoldersAndWhatIsTooDeepArePassedOver) {
  made("run");
  made(".hidden/run");
  made("1/2/3/4/run");
  fs::create_directory_symlink(folder_.path(), at("circle"));
  EXPECT_EQ(find_runs({folder_.path()}), Paths{at("run")});
}

TEST_F(FindRunsTest, AFolderWithoutRunsIsNamed) {
  fs::create_directories(at("empty/within"));
  EXPECT_TRUE(contains(
      error_of([&] { find_runs({at("empty")}); }),
      at("empty").string() + " is no run: there is no config.json in it, and no run below it"));
  EXPECT_TRUE(find_runs({at("empty")}, Absence::IsFine).empty());
  EXPECT_TRUE(contains(error_of([&] { find_runs({at("absent")}, Absence::IsFine); }),
                       "absent is no run: there is no such folder"));
  std::ofstream(at("file")) << "x";
  EXPECT_TRUE(contains(error_of([&] { find_runs({at("file")}); }), "is no run: it is a file"));
}

}  // namespace
