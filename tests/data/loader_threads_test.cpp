#include <atomic>
#include <chrono>
#include <thread>

#include <adaact/data/loader.h>
#include <adaact/data/shuffle.h>
#include <gtest/gtest.h>

#include "data/loader_support.h"
#include "support/errors.h"

namespace {

using namespace adaact::testing;
using adaact::Dataset;
using adaact::Loader;

/// Serves the samples of another data set slowly or not at all.
class TroubledDataset : public Dataset {
 public:
  explicit TroubledDataset(std::shared_ptr<Dataset> base)
      : Dataset(base->info()), base_(std::move(base)) {}

  std::int64_t size() const override { return base_->size(); }
  std::int64_t label(std::int64_t index) const override { return base_->label(index); }
  void read(std::int64_t index, std::uint8_t* pixels) const override {
    ++reads;
    if (index == bad_sample)
      throw std::runtime_error("sample " + std::to_string(index) + " is bad");
    std::this_thread::sleep_for(delay);
    base_->read(index, pixels);
  }

  std::int64_t bad_sample = -1;
  std::chrono::microseconds delay{0};
  mutable std::atomic<std::int64_t> reads{0};

 private:
  std::shared_ptr<Dataset> base_;
};

TEST(LoaderThreads, ErrorsOfWorkersComeInTurnAndStay) {
  for (const std::int64_t workers : {0, 1, 3}) {
    const auto data = std::make_shared<TroubledDataset>(small_data());
    data->bad_sample = adaact::shuffled_order(103, 5, 0)[45];
    const auto message = "sample " + std::to_string(data->bad_sample) + " is bad";
    Loader loader(data, small_options(workers));
    loader.start(0);
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(loader.next().has_value());
    EXPECT_TRUE(contains(error_of([&] { loader.next(); }), message));
    EXPECT_TRUE(contains(error_of([&] { loader.next(); }), message));
    loader.start(0, 5);
    EXPECT_TRUE(loader.next().has_value());
  }
}

TEST(LoaderThreads, WorkersDoNotRunAhead) {
  const auto data = std::make_shared<TroubledDataset>(small_data(1000));
  Loader loader(data, small_options(2));
  loader.start(0);
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LE(data->reads, 40);  // the batch taken and three ahead
}

TEST(LoaderThreads, StopsAtAnyMoment) {
  for (const std::int64_t workers : {0, 1, 2, 5}) {
    for (const std::int64_t taken : {0, 1, 2, 9}) {
      const auto data = std::make_shared<TroubledDataset>(small_data());
      data->delay = std::chrono::microseconds(50);
      data->bad_sample = adaact::shuffled_order(103, 5, 0)[95];
      Loader loader(data, small_options(workers));
      loader.start(0);
      for (std::int64_t i = 0; i < taken; ++i) loader.next();
    }
  }
  Loader never_started(small_data(), small_options(2));
}

TEST(LoaderThreads, DoesNotFinishABatchNobodyWants) {
  const auto data = std::make_shared<TroubledDataset>(small_data(1000));
  data->delay = std::chrono::milliseconds(2);
  auto options = small_options(2);
  options.batch_size = 1000;
  {
    Loader loader(data, options);
    loader.start(0);
    while (data->reads == 0) std::this_thread::yield();
  }
  EXPECT_LT(data->reads, 900);
}

TEST(LoaderThreads, CountsItsWaiting) {
  const auto data = std::make_shared<TroubledDataset>(small_data(40));
  data->delay = std::chrono::milliseconds(1);
  for (const std::int64_t workers : {0, 1}) {
    Loader loader(data, small_options(workers));
    EXPECT_EQ(loader.seconds_waited(), 0.0);
    all_batches(loader, 0);
    EXPECT_GE(loader.seconds_waited(), 0.035);
  }
}

}  // namespace
