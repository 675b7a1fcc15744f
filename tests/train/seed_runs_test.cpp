#include <adaact/train/seed_runs.h>

#include <csignal>
#include <fstream>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/temporary_folder.h"

namespace {

using adaact::RunConfig;
using adaact::RunResult;
using adaact::RunSettings;
using adaact::SeedRuns;
using adaact::TrainingCallback;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::TemporaryFolder;
namespace fs = std::filesystem;

/// Two steps and no more.
RunConfig two_step_config() {
  RunConfig config;
  config.dataset = "synthetic";
  config.limit_train = 32;
  config.limit_test = 16;
  config.batch_size = 16;
  config.epochs = 1;
  config.threads = 1;
  return config;
}

std::unique_ptr<TrainingCallback> silent(std::uint64_t /*seed*/) {
  return std::make_unique<TrainingCallback>();
}

class SeedRunsTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(SeedRunsTest, AnErrorOfOneDoesNotEndTheOthers) {
  RunSettings settings;
  settings.resume = true;
  std::string messages;
  settings.on_message = [&](const std::string& message) { messages += message + "\n"; };
  fs::create_directories(folder_.path() / "seed-1");
  std::ofstream(folder_.path() / "seed-1" / "letter.txt") << "not a run";
  SeedRuns runs(two_step_config(), {0, 1, 2}, folder_.path(), settings);
  const auto outcomes = runs.run(silent);
  ASSERT_EQ(outcomes.size(), 3U);
  for (const auto i : {0U, 2U}) {
    EXPECT_EQ(outcomes[i].seed, i);
    EXPECT_FALSE(outcomes[i].error);
    EXPECT_TRUE(fs::exists(runs.folder_of(i) / "model.safetensors"));
  }
  ASSERT_TRUE(outcomes[1].error);
  EXPECT_TRUE(contains(error_of([&] { std::rethrow_exception(outcomes[1].error); }),
                       "holds something else than a run"));
}

TEST_F(SeedRunsTest, ASignalEndsAllOfThem) {
  class Signal : public TrainingCallback {
   public:
    void on_step(const adaact::Trainer& /*trainer*/,
                 const adaact::StepMetrics& /*metrics*/) override {
      std::raise(SIGTERM);
    }
  };
  SeedRuns runs(two_step_config(), {4, 6}, folder_.path());
  const auto outcomes = runs.run([](std::uint64_t) { return std::make_unique<Signal>(); });
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.result.status, RunResult::Status::Interrupted);
    EXPECT_EQ(outcome.result.signal, SIGTERM);
  }
  EXPECT_FALSE(fs::exists(runs.folder_of(6)));
}

TEST_F(SeedRunsTest, SeedsAreChecked) {
  EXPECT_TRUE(contains(error_of([&] { SeedRuns(two_step_config(), {}, folder_.path()); }),
                       "seeds are empty, expected one at least"));
  EXPECT_TRUE(contains(error_of([&] {
                         SeedRuns(two_step_config(), {7, 8, 7}, folder_.path());
                       }),
                       "seeds hold 7 twice"));
}

TEST_F(SeedRunsTest, OnTheCpuOneAfterTheOther) {
  class Order : public TrainingCallback {
   public:
    Order(std::vector<std::uint64_t>& seen, std::uint64_t seed) : seen_(seen), seed_(seed) {}
    void on_step(const adaact::Trainer& /*trainer*/,
                 const adaact::StepMetrics& /*metrics*/) override {
      seen_.push_back(seed_);
    }

   private:
    std::vector<std::uint64_t>& seen_;
    std::uint64_t seed_;
  };
  std::vector<std::uint64_t> seen;
  SeedRuns(two_step_config(), {8, 2}, folder_.path()).run([&](std::uint64_t seed) {
    return std::make_unique<Order>(seen, seed);
  });
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{8, 8, 2, 2}));
}

}  // namespace
