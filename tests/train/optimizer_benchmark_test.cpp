#include <adaact/train/optimizer_benchmark.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "train/memory_meter.h"

namespace {

using adaact::BenchmarkOptions;
using adaact::measure_optimizers;
using adaact::MemoryMeter;
using adaact::testing::contains;
using adaact::testing::error_of;

TEST(MemoryMeter, SeesTheMostInUseAtAnyMoment) {
  constexpr std::int64_t kMegabyte = 1 << 20;
  const auto before = torch::empty({kMegabyte}, torch::kByte);
  const MemoryMeter meter(torch::kCPU);
  {
    const auto one = torch::empty({kMegabyte}, torch::kByte);
    const auto two = torch::empty({2 * kMegabyte}, torch::kByte);
  }
  const auto three = torch::empty({kMegabyte}, torch::kByte);
  EXPECT_GE(meter.peak_bytes(), 3 * kMegabyte);
  EXPECT_LT(meter.peak_bytes(), 3 * kMegabyte + 4096);
}

BenchmarkOptions quick() {
  BenchmarkOptions options;
  options.batch_size = 4;
  options.steps = 5;
  options.threads = 1;
  return options;
}

TEST(OptimizerBenchmark, MeasuresWhatWasAskedForInThatOrder) {
  auto options = quick();
  options.optimizers = {"adam", "sgd", "adaact"};
  const auto costs = measure_optimizers(options);
  ASSERT_EQ(costs.size(), 3U);
  EXPECT_EQ(costs[0].optimizer, "adam");
  EXPECT_EQ(costs[1].ratio_to_sgd, 1.0);
  const std::int64_t weights = 62006 * 4;  // LeNet-5 in float32
  EXPECT_NEAR(static_cast<double>(costs[0].state_bytes), 2.0 * weights, 2000.0);
  EXPECT_NEAR(static_cast<double>(costs[1].state_bytes), 1.0 * weights, 2000.0);
  for (const auto& cost : costs) {
    EXPECT_GT(cost.peak_bytes, 2 * weights + cost.state_bytes);
    EXPECT_LE(cost.lowest_ms, cost.ms_per_step);
    EXPECT_GE(cost.highest_ms, cost.ms_per_step);
    EXPECT_NEAR(cost.ratio_to_sgd, cost.ms_per_step / costs[1].ms_per_step, 1e-12);
  }
  EXPECT_GT(costs[0].peak_bytes, costs[1].peak_bytes);
}

TEST(OptimizerBenchmark, ComparesWithSgdEvenIfItIsNotShown) {
  auto options = quick();
  options.optimizers = {"adaact"};
  const auto costs = measure_optimizers(options);
  ASSERT_EQ(costs.size(), 1U);
  EXPECT_GT(costs[0].ratio_to_sgd, 0.0);
}

TEST(OptimizerBenchmark, MistakesAreNamed) {
  const auto error = [](auto&& change) {
    auto options = quick();
    change(options);
    return error_of([&] { measure_optimizers(options); });
  };
  EXPECT_TRUE(contains(error([](auto& o) {
                         o.optimizers = {"adaact", "adm"};
                       }),
                       "did you mean 'adam'?"));
  EXPECT_TRUE(contains(error([](auto& o) { o.optimizers.clear(); }), "optimizers are empty"));
  EXPECT_TRUE(contains(error([](auto& o) { o.steps = 1; }), "steps is 1"));
}

}  // namespace
