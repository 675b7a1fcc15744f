// Training on several ranks, which are threads here, against one process.

#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "layers/shared_batch_statistics.h"
#include "support/errors.h"
#include "support/thread_ranks.h"
#include "support/tolerance.h"
#include "support/training_by_rank.h"

namespace ranks_training {
namespace {

using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::on_ranks;
using adaact::testing::ThreadRank;

/// What each rank has after the training, by rank.
std::vector<Outcome> train(std::int64_t ranks, const Settings& settings,
                           const Outcome* from = nullptr) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](const std::shared_ptr<ThreadRank>& rank) {
    outcomes[static_cast<std::size_t>(rank->rank())] = trained_by(rank, settings, from);
  });
  return outcomes;
}

void expect_close(const Tensors& actual, const Tensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(adaact::testing::all_close(actual[i].to(torch::kFloat64),
                                           expected[i].to(torch::kFloat64), 1e-11))
        << "tensor " << i;
  }
}

TrainerOptions ten_epochs() {
  TrainerOptions options;
  options.epochs = 10;
  return options;
}

struct Case {
  const char* name;
  const char* optimizer;
  const char* options;
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

class RanksTraining : public ::testing::TestWithParam<Case> {
 protected:
  Settings settings() const {
    Settings settings;
    settings.optimizer = GetParam().optimizer;
    settings.options = GetParam().options;
    settings.trainer = ten_epochs();
    return settings;
  }
};

TEST_P(RanksTraining, AnyNumberOfRanksComesToTheSameWeights) {
  const auto alone = train(1, settings())[0];
  EXPECT_EQ(alone.state.step, 50);
  for (const auto ranks : std::vector<std::int64_t>{2, 3, 4, kMoreThanTheLastBatchHas}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    for (const auto& outcome : train(ranks, settings())) {
      expect_close(outcome.weights, alone.weights);
    }
  }
}

TEST_P(RanksTraining, AccumulationAndClippingIncluded) {
  auto together = settings();
  together.trainer.epochs = 17;
  together.trainer.accumulation = 2;
  together.trainer.clip_norm = 0.05;
  const auto alone = train(1, together)[0];
  EXPECT_EQ(alone.state.step, 51);
  EXPECT_GT(alone.told.steps.front().gradient_norm, 0.05);
  for (const std::int64_t ranks : {2, 3, 4}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    for (const auto& outcome : train(ranks, together)) {
      expect_close(outcome.weights, alone.weights);
    }
  }
}

TEST_P(RanksTraining, BatchNormalisationOverAllOfThemIncluded) {
  auto together = settings();
  together.with_norm = true;
  together.trainer.sync_batchnorm = true;
  const auto alone = train(1, together)[0];
  for (const auto ranks : std::vector<std::int64_t>{2, kMoreThanTheLastBatchHas}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    for (const auto& outcome : train(ranks, together)) {
      expect_close(outcome.weights, alone.weights);
    }
  }
}

// KFAC with more damping than by default: the factors of so few images are so ill-conditioned that rounding alone grows
// to 2e-10 in fifty steps.
INSTANTIATE_TEST_SUITE_P(
    Optimizers, RanksTraining,
    ::testing::Values(Case{"adaact", "adaact", R"({"lr": 0.05})"},
                      Case{"adaact_full", "adaact", R"({"lr": 0.05, "covariance": "full"})"},
                      Case{"adan", "adan", "{}"}, Case{"lamb", "lamb", "{}"},
                      Case{"foof", "foof", R"({"lr": 0.01})"},
                      Case{"kfac", "kfac", R"({"lr": 0.01, "damping": 0.1})"},
                      Case{"sgd", "sgd", R"({"lr": 0.1})"}, Case{"adam", "adam", R"({"lr": 0.01})"},
                      Case{"adamw", "adamw", R"({"lr": 0.01})"}, Case{"sam", "sam", "{}"}),
    [](const auto& info) { return info.param.name; });

TEST(TrainingOnRanks, MetricsAreThoseOfAllRanks) {
  Settings settings;
  settings.trainer = ten_epochs();
  settings.trainer.epochs = 2;
  const auto alone = train(1, settings)[0].told;
  for (const auto& outcome : train(3, settings)) {
    ASSERT_EQ(outcome.told.steps.size(), alone.steps.size());
    for (std::size_t i = 0; i < alone.steps.size(); ++i) {
      EXPECT_NEAR(outcome.told.steps[i].loss, alone.steps[i].loss, 1e-5);
      EXPECT_DOUBLE_EQ(outcome.told.steps[i].top1, alone.steps[i].top1);
      EXPECT_NEAR(outcome.told.steps[i].gradient_norm, alone.steps[i].gradient_norm, 1e-9);
    }
    ASSERT_EQ(outcome.told.epochs.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto &actual = outcome.told.epochs[i], &expected = alone.epochs[i];
      EXPECT_NEAR(actual.train_loss, expected.train_loss, 1e-5);
      EXPECT_NEAR(actual.test.loss, expected.test.loss, 1e-5);
      EXPECT_DOUBLE_EQ(actual.test.top1, expected.test.top1);
      EXPECT_EQ(actual.test.images, expected.test.images);
      ASSERT_EQ(actual.second_moments.size(), expected.second_moments.size());
      for (std::size_t k = 0; k < expected.second_moments.size(); ++k) {
        EXPECT_EQ(actual.second_moments[k].first, expected.second_moments[k].first);
        EXPECT_NEAR(actual.second_moments[k].second, expected.second_moments[k].second, 1e-6);
      }
    }
  }
}

TEST(TrainingOnRanks, EveryRankHasTheAverageOfOne) {
  Settings settings;
  settings.trainer = ten_epochs();
  settings.trainer.ema_decay = 0.9;
  const auto alone = train(1, settings)[0];
  ASSERT_FALSE(alone.state.average.empty());
  for (const auto& outcome : train(3, settings)) {
    for (const auto& [name, tensor] : alone.state.average) {
      EXPECT_TRUE(adaact::testing::all_close(outcome.state.average.at(name), tensor, 1e-11))
          << name;
    }
    EXPECT_NEAR(outcome.told.epochs.back().test.loss, alone.told.epochs.back().test.loss, 1e-5);
  }
}

TEST(TrainingOnRanks, BinaryCrossEntropyIsThatOfAllImages) {
  Settings settings;
  settings.trainer = ten_epochs();
  settings.trainer.epochs = 2;
  settings.trainer.accumulation = 2;
  settings.trainer.loss = adaact::Loss::BinaryCrossEntropy;
  const auto alone = train(1, settings)[0].told;
  const auto together = train(3, settings)[0].told;
  ASSERT_EQ(together.steps.size(), alone.steps.size());
  for (std::size_t i = 0; i < alone.steps.size(); ++i) {
    EXPECT_NEAR(together.steps[i].loss, alone.steps[i].loss, 1e-6);
    EXPECT_NEAR(together.steps[i].gradient_norm, alone.steps[i].gradient_norm, 1e-6);
  }
}

TEST(TrainingOnRanks, BatchNormalisationTakesARanksOwnStatisticsUnlessAsked) {
  Settings settings;
  settings.trainer = ten_epochs();
  settings.with_norm = true;
  const auto alone = train(1, settings)[0];
  const auto apart = train(3, settings)[0];
  EXPECT_GT((apart.weights[0] - alone.weights[0]).abs().max().item<double>(), 1e-6);
}

TEST(TrainingOnRanks, ARunGoesOnWithAnotherNumberOfRanks) {
  Settings settings;
  settings.trainer = ten_epochs();
  const auto whole = train(1, settings)[0];
  Outcome last;
  std::int64_t stop_at = 0;
  for (const std::int64_t ranks : {3, 1, 4, 2}) {
    auto part = settings;
    stop_at += 13;
    std::mutex mutex;
    std::int64_t asked = 0;
    part.trainer.should_stop = [&] {
      const std::lock_guard<std::mutex> lock(mutex);
      return ++asked > 13 * ranks && stop_at < 50;
    };
    const auto outcomes = train(ranks, part, last.weights.empty() ? nullptr : &last);
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome.state.step, outcomes[0].state.step);
    last = outcomes[0];
  }
  EXPECT_TRUE(last.finished);
  expect_close(last.weights, whole.weights);
}

TEST(TrainingOnRanks, AWishOfOneRankStopsAllBeforeTheSameStep) {
  std::vector<std::int64_t> steps(3);
  on_ranks(3, [&](const std::shared_ptr<ThreadRank>& rank) {
    Settings settings;
    settings.trainer = ten_epochs();
    int asked = 0;
    settings.trainer.should_stop = [&] { return rank->rank() == 1 && ++asked > 7; };
    const auto outcome = trained_by(rank, settings, nullptr);
    EXPECT_FALSE(outcome.finished);
    steps[static_cast<std::size_t>(rank->rank())] = outcome.state.step;
  });
  EXPECT_GT(steps[0], 0);
  EXPECT_EQ(steps, std::vector<std::int64_t>(3, steps[0]));
}

TEST(TrainingOnRanks, LoadersMustGiveTheRanksOwnPart) {
  const auto error = error_of([] {
    on_ranks(2, [](const std::shared_ptr<ThreadRank>& rank) {
      Loader whole(images(adaact::Split::Train), LoaderOptions());
      WideModel model(/*with_norm=*/false, /*drop_path=*/0.0);
      const auto optimizer = adaact::make_optimizer("sgd", model);
      TrainerOptions options;
      options.ranks = rank;
      Trainer(model, *optimizer, whole, whole, options);
    });
  });
  EXPECT_TRUE(contains(error, "a loader gives part 0 of 1, expected part")) << error;
}

}  // namespace
}  // namespace ranks_training
