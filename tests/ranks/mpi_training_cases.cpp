// Training by real processes against one process: every rank also trains alone, and compares.

#include <gtest/gtest.h>

#include "ranks/mpi_ranks.h"
#include "support/tolerance.h"
#include "support/training_by_rank.h"

namespace {

using ranks_training::Outcome;
using ranks_training::Settings;

Outcome trained(const std::shared_ptr<adaact::Communicator>& ranks, const Settings& settings) {
  torch::manual_seed(3);
  return ranks_training::trained_by(ranks, settings, /*from=*/nullptr);
}

void expect_the_weights_of_one_process(Settings settings) {
  settings.trainer.epochs = 10;
  const auto alone = trained(adaact::single_process(), settings);
  const auto together = trained(adaact::mpi_communicator(), settings);
  EXPECT_EQ(together.state.step, alone.state.step);
  ASSERT_EQ(together.weights.size(), alone.weights.size());
  for (std::size_t i = 0; i < alone.weights.size(); ++i) {
    EXPECT_TRUE(adaact::testing::all_close(together.weights[i].to(torch::kFloat64),
                                           alone.weights[i].to(torch::kFloat64), 1e-11))
        << "tensor " << i;
  }
}

TEST(MpiTraining, ComesToTheWeightsOfOneProcess) {
  for (const char* optimizer : {"adaact", "foof", "adamw"}) {
    SCOPED_TRACE(optimizer);
    Settings settings;
    settings.optimizer = optimizer;
    settings.options = R"({"lr": 0.01})";
    expect_the_weights_of_one_process(settings);
  }
}

TEST(MpiTraining, NormalisingOverAllRanksIncluded) {
  Settings settings;
  settings.with_norm = true;
  settings.trainer.sync_batchnorm = true;
  expect_the_weights_of_one_process(settings);
}

TEST(MpiTraining, BranchesThatAreLeftOutIncluded) {
  Settings settings;
  settings.drop_path = 0.5;
  expect_the_weights_of_one_process(settings);
}

TEST(MpiTraining, ARankWithoutImagesOfALastBatchDoesNotFallBehindInWhatIsDrawn) {
  Settings settings;
  settings.drop_path = 0.5;
  settings.images = 29;  // the last batch has one, and no rank but the last has anything of it
  for (const std::int64_t accumulation : {1, 2}) {
    SCOPED_TRACE("accumulation " + std::to_string(accumulation));
    settings.trainer.accumulation = accumulation;
    expect_the_weights_of_one_process(settings);
    // What a checkpoint would keep, whichever rank makes it.
    const auto next = torch::rand({1}, torch::kFloat64);
    const auto of_all = next.clone();
    adaact::mpi_communicator()->sum({of_all});
    const auto ranks = static_cast<double>(adaact::mpi_communicator()->size());
    EXPECT_DOUBLE_EQ(of_all.item<double>(), ranks * next.item<double>());
  }
}

}  // namespace
