// The benchmark of optimizers by several ranks, which are threads here.

#include <string>
#include <vector>

#include <adaact/train/optimizer_benchmark.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/thread_ranks.h"
#include "train/bench/measured_exchange.h"
#include "train/bench/metered_ranks.h"

namespace {

using adaact::BenchmarkOptions;
using adaact::BenchmarkResult;
using adaact::measure_optimizers;
using adaact::MeteredRanks;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::on_ranks;

BenchmarkOptions options_for_ranks() {
  BenchmarkOptions options;
  options.batch_size = 7;  // of which no number of ranks has equal parts
  options.steps = 5;
  options.threads = 1;
  options.optimizers = {"adaact", "sgd"};
  return options;
}

/// What each rank measures, by rank.
std::vector<BenchmarkResult> measure_on_ranks(std::int64_t size, const BenchmarkOptions& options) {
  std::vector<BenchmarkResult> results(static_cast<std::size_t>(size));
  on_ranks(size, [&](const auto& ranks) {
    auto own = options;
    own.ranks = ranks;
    results[static_cast<std::size_t>(ranks->rank())] = measure_optimizers(own);
  });
  return results;
}

TEST(BenchmarkOfRanks, SaysWhatTravelsAndWhatItCosts) {
  const auto results = measure_on_ranks(3, options_for_ranks());
  for (const auto& result : results) {
    ASSERT_TRUE(result.ranks);
    EXPECT_EQ(result.ranks->ranks, 3);
    EXPECT_EQ(result.ranks->images_of_first, 2);
    EXPECT_EQ(result.ranks->sums.front().bytes, 8);
    for (const auto& sum : result.ranks->sums) EXPECT_GT(sum.ms, 0.0);
    ASSERT_EQ(result.optimizers.size(), 2U);
    for (const auto& cost : result.optimizers) {
      ASSERT_TRUE(cost.exchange);
      const auto& exchange = *cost.exchange;
      const std::int64_t weights =
          62006 * 4;  // LeNet-5 in float32; each gradient is padded to 64 bytes
      EXPECT_GE(exchange.gradient_bytes, weights);
      EXPECT_LT(exchange.gradient_bytes, weights + 10 * (64 + 8));
      EXPECT_GT(exchange.messages, 1);
      EXPECT_LT(exchange.largest_message_bytes, exchange.gradient_bytes);
      EXPECT_GT(exchange.waited_for_gradients_ms, 0.0);
      EXPECT_GE(exchange.hidden, 0.0);
      EXPECT_LE(exchange.hidden, 1.0);
      EXPECT_FALSE(exchange.hidden_of_all()) << "these ranks are not MPI's";
      EXPECT_GT(exchange.alone_ms_per_step, 0.0);
      EXPECT_GT(exchange.alone_peak_bytes, 2 * weights);
      // Two images of one rank against seven of three.
      EXPECT_NEAR(exchange.efficiency, exchange.alone_ms_per_step / 2 * 7 / (3 * cost.ms_per_step),
                  1e-9);
      EXPECT_NEAR(cost.images_per_second * cost.ms_per_step, 7 * 1e3, 1e-6);
    }
    const std::int64_t features = 3 * 25 + 6 * 25 + 400 + 120 + 84;  // inputs of LeNet-5's layers
    const auto& adaact = *result.optimizers[0].exchange;
    EXPECT_GE(adaact.statistics_bytes, 4 * features);
    EXPECT_LT(adaact.statistics_bytes, 4 * features + 5 * (64 + 16) + 16);
    EXPECT_GT(adaact.waited_for_statistics_ms, 0.0);
    const auto& sgd = *result.optimizers[1].exchange;
    EXPECT_EQ(sgd.statistics_bytes, 0);
    EXPECT_EQ(sgd.waited_for_statistics_ms, 0.0);
  }
  // What rank 0 measures by itself it tells the others.
  EXPECT_EQ(results[0].optimizers[0].exchange->alone_ms_per_step,
            results[2].optimizers[0].exchange->alone_ms_per_step);
}

TEST(BenchmarkOfRanks, OneRankHasNothingToExchange) {
  const auto result = measure_on_ranks(1, options_for_ranks()).front();
  EXPECT_FALSE(result.ranks);
  for (const auto& cost : result.optimizers) EXPECT_FALSE(cost.exchange);
}

TEST(BenchmarkOfRanks, SamExchangesTheGradientsOfBothPasses) {
  auto options = options_for_ranks();
  options.optimizers = {"sam", "sgd"};
  const auto costs = measure_on_ranks(2, options).front().optimizers;
  EXPECT_EQ(costs[0].exchange->gradient_bytes, 2 * costs[1].exchange->gradient_bytes);
}

TEST(BenchmarkOfRanks, MistakesAreNamed) {
  auto options = options_for_ranks();
  options.batch_size = 2;
  EXPECT_TRUE(contains(error_of([&] { measure_on_ranks(3, options); }),
                       "batch_size is 2, expected ≥ 3, an image for each rank"));
  options = options_for_ranks();
  const auto differ = [&](auto&& change) {
    return error_of([&] {
      on_ranks(2, [&](const auto& ranks) {
        auto own = options;
        own.ranks = ranks;
        if (!ranks->is_first()) change(own);
        measure_optimizers(own);
      });
    });
  };
  EXPECT_TRUE(contains(differ([](auto& o) { o.steps = 10; }),
                       "it has 10 steps, adaact, sgd, expected 5 steps, adaact, sgd"));
  EXPECT_TRUE(
      contains(differ([](auto& o) { o.options_of["adaact"] = R"({"lr": 0.3})"; }),
               R"(it has 5 steps, adaact {"lr": 0.3}, sgd, expected 5 steps, adaact, sgd)"));
  EXPECT_TRUE(contains(differ([](auto& o) { o.batch_size = 8; }), "rank 1 differs in its options"));
}

TEST(MeteredRanks, CountWhatIsHandedOverAndNoTalk) {
  on_ranks(2, [](const auto& ranks) {
    MeteredRanks metered(ranks);
    metered.barrier();
    EXPECT_EQ(metered.gather("a"), (std::vector<std::string>{"a", "a"}));
    EXPECT_EQ(metered.reading().messages, 0);
    const auto numbers = torch::ones({3}, torch::kFloat64);
    metered.sum({numbers, torch::ones({2}, torch::kFloat32)});
    EXPECT_EQ(numbers[0].template item<double>(), 2.0);
    metered.broadcast({torch::ones({5}, torch::kUInt8)}, 0);
    EXPECT_EQ(metered.reading().messages, 2);
    EXPECT_EQ(metered.reading().bytes, 24 + 8 + 5);
    EXPECT_EQ(metered.reading().largest_message, 32);
    EXPECT_GT(metered.reading().seconds_waited, 0.0);
    metered.restart();
    EXPECT_EQ(metered.reading().bytes, 0);
  });
}

TEST(ImagesOfRank, AreThePartsOfABatch) {
  std::int64_t all = 0;
  for (std::int64_t rank = 0; rank < 5; ++rank) all += adaact::images_of_rank(128, rank, 5);
  EXPECT_EQ(all, 128);
  EXPECT_EQ(adaact::images_of_rank(128, 0, 5), 25);
  EXPECT_EQ(adaact::images_of_rank(128, 4, 5), 26);
}

}  // namespace
