#include <adaact/train/optimizer_benchmark.h>

#include <chrono>
#include <thread>

#include <adaact/models/registry.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "train/bench/memory_meter.h"
#include "train/bench/memory_traffic.h"
#include "train/bench/timed_work.h"

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

TEST(MemoryMeter, ForgetsAPeakButNotWhatIsInUse) {
  constexpr std::int64_t kMegabyte = 1 << 20;
  MemoryMeter meter(torch::kCPU);
  const auto stays = torch::empty({kMegabyte}, torch::kByte);
  torch::empty({5 * kMegabyte}, torch::kByte);
  EXPECT_GE(meter.peak_bytes(), 6 * kMegabyte);
  meter.restart_peak();
  torch::empty({kMegabyte}, torch::kByte);
  EXPECT_GE(meter.peak_bytes(), 2 * kMegabyte);
  EXPECT_LT(meter.peak_bytes(), 2 * kMegabyte + 4096);
}

TEST(TimedWork, ByTheClockAndInTheMiddle) {
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); };
  EXPECT_GE(adaact::milliseconds_of(torch::kCPU, pause), 3.0);
  EXPECT_EQ(adaact::median({3.0, 1.0, 2.0}), 2.0);
  EXPECT_TRUE(contains(error_of([] { adaact::median({}); }), "0 values"));
}

TEST(MemoryTraffic, CountsInputsSumsParametersGradientsAndState) {
  const auto model = adaact::make_model("lenet5");
  const auto images = torch::randn({2, 3, 32, 32});
  const adaact::StatisticsTraffic traffic(*model);
  EXPECT_EQ(traffic.bytes(), 0);
  model->forward(images);
  const std::int64_t inputs = 3 * 32 * 32 + 6 * 14 * 14 + 400 + 120 + 84;  // of an image
  const std::int64_t sums = 3 * 25 + 6 * 25 + 400 + 120 + 84;
  EXPECT_EQ(traffic.bytes(), 4 * (2 * inputs + 2 * sums));
  const std::int64_t weights = 62006;
  EXPECT_EQ(adaact::update_traffic(*model, /*state_bytes=*/100), 3 * 4 * weights + 2 * 100);
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
  const auto result = measure_optimizers(options);
  EXPECT_FALSE(result.gpu);
  const auto& costs = result.optimizers;
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
    EXPECT_NEAR(cost.images_per_second * cost.ms_per_step, 4 * 1e3, 1e-6);
    EXPECT_FALSE(cost.update);
  }
  EXPECT_GT(costs[0].peak_ratio_to_sgd, 1.0);
  EXPECT_EQ(costs[1].peak_ratio_to_sgd, 1.0);
}

TEST(OptimizerBenchmark, GivesAnOptimizerTheOptionsThatAreItsOwn) {
  auto options = quick();
  options.optimizers = {"adaact", "sgd"};
  const auto by_default = measure_optimizers(options).optimizers;
  options.options_of["adaact"] = R"({"covariance": "full"})";
  const auto with_full = measure_optimizers(options).optimizers;
  EXPECT_GT(with_full[0].state_bytes, by_default[0].state_bytes);
  EXPECT_EQ(with_full[1].state_bytes, by_default[1].state_bytes);
}

TEST(OptimizerBenchmark, ComparesWithSgdEvenIfItIsNotShown) {
  auto options = quick();
  options.optimizers = {"adaact"};
  const auto costs = measure_optimizers(options).optimizers;
  ASSERT_EQ(costs.size(), 1U);
  EXPECT_GT(costs[0].ratio_to_sgd, 0.0);
  EXPECT_GT(costs[0].peak_ratio_to_sgd, 0.0);
}

TEST(OptimizerBenchmark, OnAGpuWithTheFloorOfTheUpdate) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  auto options = quick();
  options.device = "cuda";
  options.optimizers = {"adaact", "sgd", "foof"};
  const auto result = measure_optimizers(options);
  ASSERT_TRUE(result.gpu);
  EXPECT_GT(result.gpu->copy_bytes_per_second, 0.0);
  EXPECT_GT(result.gpu->ms_per_batch, 0.0);
  EXPECT_GT(result.gpu->forward_backward_ms.value(), 0.0);
  const auto& adaact = result.optimizers[0];
  const auto& sgd = result.optimizers[1];
  EXPECT_TRUE(adaact.graph);
  EXPECT_GT(adaact.update.value().statistics_bytes, 0);
  EXPECT_EQ(sgd.update.value().statistics_bytes, 0);
  EXPECT_GT(sgd.update->floor_ms, 0.0);
  EXPECT_GT(adaact.update->floor_ms, sgd.update->floor_ms);
  EXPECT_FALSE(result.optimizers[2].graph);
  EXPECT_FALSE(result.optimizers[2].update);
}

TEST(OptimizerBenchmark, OnAGpuTheOrderDoesNotChangeThePeaks) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  auto options = quick();
  options.device = "cuda";
  options.optimizers = {"adam", "sgd"};
  const auto forwards = measure_optimizers(options).optimizers;
  options.optimizers = {"sgd", "adam"};
  const auto backwards = measure_optimizers(options).optimizers;
  EXPECT_EQ(forwards[0].peak_bytes, backwards[1].peak_bytes);
  EXPECT_EQ(forwards[1].peak_bytes, backwards[0].peak_bytes);
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
  EXPECT_TRUE(contains(error([](auto& o) { o.options_of["foof"] = "{}"; }),
                       "options_of is for 'foof', which is not among the optimizers"));
  EXPECT_TRUE(contains(error([](auto& o) { o.options_of["sgd"] = R"({"covariance": "full"})"; }),
                       "covariance"));
}

}  // namespace
