// Batches from the memory of a GPU against the Loader's, bit for bit. Skips, visibly, where there is
// no GPU.

#include <array>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/cuda/CUDAGraph.h>
#include <adaact/data/device_batches.h>
#include <adaact/data/loader.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "data/loader_support.h"
#include "support/errors.h"

namespace {

using namespace adaact::testing;
using adaact::AugmentOptions;
using adaact::DatasetInfo;
using adaact::DeviceBatches;
using adaact::ImageShape;
using adaact::ImageTensorDataset;
using adaact::Loader;
using adaact::LoaderOptions;

constexpr std::uint64_t kSeed = 0x123456789ABCDEF0U;

/// Random bytes, and a normalisation that differs between channels.
std::shared_ptr<ImageTensorDataset> random_data(const ImageShape& shape, std::int64_t size) {
  DatasetInfo info{"random", shape, {}, {}};
  for (int label = 0; label < 10; ++label) info.class_names.push_back(std::to_string(label));
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    info.normalization.mean.push_back(0.4F + 0.05F * static_cast<float>(c));
    info.normalization.std.push_back(0.2F + 0.03F * static_cast<float>(c));
  }
  return std::make_shared<ImageTensorDataset>(
      std::move(info),
      torch::randint(0, 256, {size, shape.channels, shape.height, shape.width}, torch::kByte),
      torch::randint(0, 10, {size}, torch::kLong));
}

DeviceBatches::Options training_options(std::int64_t batch_size = 16) {
  auto options = DeviceBatches::Options::training();
  options.batch_size = batch_size;
  options.seed = kSeed;
  return options;
}

LoaderOptions loader_options(const DeviceBatches::Options& options) {
  LoaderOptions result;
  result.batch_size = options.batch_size;
  result.shuffle = options.shuffle;
  result.drop_last = options.drop_last;
  result.workers = 0;
  result.seed = options.seed;
  result.part = options.part;
  result.parts = options.parts;
  result.layout =
      options.channels_last ? adaact::ImageLayout::ChannelsLast : adaact::ImageLayout::Planes;
  result.augment = options.augment;
  return result;
}

/// A batch on the GPU that holds nothing of use until it is written.
struct DeviceBatch {
  torch::Tensor images;
  torch::Tensor labels;

  DeviceBatch(const DeviceBatches& batches, std::int64_t size)
      : images(batches.empty_images(size)), labels(batches.empty_labels(size)) {
    poison();
  }

  void poison() {
    images.fill_(std::numeric_limits<float>::quiet_NaN());
    labels.fill_(-7);
  }
};

torch::Tensor bits(const torch::Tensor& values) {
  return values.view(values.element_size() == 2 ? torch::kShort : torch::kInt);
}

void expect_same(const DeviceBatch& actual, const LoadedBatch& expected) {
  const auto images = actual.images.cpu();
  const auto rounded = expected.images.to(images.scalar_type());
  ASSERT_EQ(images.sizes(), rounded.sizes());
  EXPECT_TRUE(torch::equal(bits(images), bits(rounded)))
      << "images of batch " << expected.index << " of epoch " << expected.epoch;
  EXPECT_TRUE(torch::equal(actual.labels.cpu(), expected.labels))
      << "labels of batch " << expected.index << " of epoch " << expected.epoch;
}

void expect_same_epoch(DeviceBatches& batches, Loader& loader, std::int64_t epoch,
                       std::int64_t first = 0) {
  ASSERT_EQ(batches.batches_per_epoch(), loader.batches_per_epoch());
  batches.start(epoch, first);
  for (const auto& expected : all_batches(loader, epoch, first)) {
    ASSERT_EQ(batches.batch_size(expected.index), expected.size());
    DeviceBatch batch(batches, expected.size());
    batches.enqueue_next(batch.images, batch.labels);
    expect_same(batch, expected);
  }
}

struct Format {
  ImageShape shape;
  torch::ScalarType dtype;
  bool channels_last;
};

std::vector<Format> formats() {
  std::vector<Format> result;
  for (const ImageShape shape : {ImageShape{1, 28, 28}, ImageShape{3, 32, 32}, ImageShape{3, 13, 7},
                                 ImageShape{4, 9, 10}, ImageShape{2, 3, 4}, ImageShape{4, 1, 1}}) {
    for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
      for (const bool channels_last : {false, true}) {
        result.push_back({shape, dtype, channels_last});
      }
    }
  }
  return result;
}

std::string name_of(const Format& format) {
  const auto& [channels, height, width] = format.shape;
  return std::to_string(channels) + "x" + std::to_string(height) + "x" + std::to_string(width) +
         "_" + torch::toString(format.dtype) +
         (format.channels_last ? "_channels_last" : "_planes");
}

class DeviceBatchesCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(19);
  }
};

class DeviceBatchesFormat : public DeviceBatchesCuda,
                            public ::testing::WithParamInterface<Format> {};

TEST_P(DeviceBatchesFormat, GivesTheBatchesOfTheLoader) {
  const auto& format = GetParam();
  const auto data = random_data(format.shape, 103);
  for (const bool shuffle : {false, true}) {
    for (const bool augment : {false, true}) {
      for (const bool drop_last : {false, true}) {
        SCOPED_TRACE(c10::str("shuffle ", shuffle, " augment ", augment, " drop_last ", drop_last));
        auto options = training_options();
        options.shuffle = shuffle;
        options.drop_last = drop_last;
        options.augment = augment ? AugmentOptions::training() : AugmentOptions::evaluation();
        options.dtype = format.dtype;
        options.channels_last = format.channels_last;
        DeviceBatches batches(*data, options, torch::kCUDA);
        Loader loader(data, loader_options(options));
        expect_same_epoch(batches, loader, 0);
        expect_same_epoch(batches, loader, 1);
        expect_same_epoch(batches, loader, 1, 4);
      }
    }
  }
}

TEST_P(DeviceBatchesFormat, TensorsHaveTheMemoryFormat) {
  const auto& format = GetParam();
  auto options = training_options();
  options.dtype = format.dtype;
  options.channels_last = format.channels_last;
  const DeviceBatches batches(*random_data(format.shape, 20), options, torch::kCUDA);
  const auto images = batches.empty_images(5);
  const auto planes = torch::empty_like(images, torch::MemoryFormat::Contiguous);
  EXPECT_EQ(images.scalar_type(), format.dtype);
  EXPECT_TRUE(images.is_cuda());
  EXPECT_TRUE(images.is_contiguous(format.channels_last ? torch::MemoryFormat::ChannelsLast
                                                        : torch::MemoryFormat::Contiguous));
  EXPECT_EQ(images.sizes(), planes.sizes());
  EXPECT_EQ(batches.empty_labels(5).scalar_type(), torch::kLong);
}

INSTANTIATE_TEST_SUITE_P(Formats, DeviceBatchesFormat, ::testing::ValuesIn(formats()),
                         [](const auto& info) { return name_of(info.param); });

TEST_F(DeviceBatchesCuda, CanStartAnywhere) {
  const auto data = random_data({3, 8, 8}, 103);
  const auto options = training_options(10);
  DeviceBatches batches(*data, options, torch::kCUDA);
  Loader loader(data, loader_options(options));
  for (const std::int64_t first : {7, 0, 10, 1, 11}) expect_same_epoch(batches, loader, 2, first);
}

TEST_F(DeviceBatchesCuda, PartsAreTheLoaders) {
  const auto data = random_data({3, 8, 8}, 103);  // the last batch has 7 images
  for (const std::int64_t parts : {2, 3, 7, 20}) {
    for (std::int64_t part = 0; part < parts; ++part) {
      SCOPED_TRACE(c10::str("part ", part, " of ", parts));
      auto options = training_options();
      options.part = part;
      options.parts = parts;
      DeviceBatches batches(*data, options, torch::kCUDA);
      EXPECT_EQ(batches.whole_batch_size(6), 7);
      Loader loader(data, loader_options(options));
      expect_same_epoch(batches, loader, 0);
      expect_same_epoch(batches, loader, 1, 5);
    }
  }
}

TEST_F(DeviceBatchesCuda, EpochNumbersUseAllTheirBits) {
  const auto data = random_data({3, 8, 8}, 33);
  const auto options = training_options(10);
  DeviceBatches batches(*data, options, torch::kCUDA);
  Loader loader(data, loader_options(options));
  for (const std::int64_t epoch : {0x7FFFFFFFLL, 0x80000000LL, 0xFFFFFFFFLL}) {
    expect_same_epoch(batches, loader, epoch);
  }
}

TEST_F(DeviceBatchesCuda, ShufflesMoreSamplesThanASmallSortTakes) {
  const auto data = random_data({1, 2, 2}, 50'000);
  const auto options = training_options(4'096);
  DeviceBatches batches(*data, options, torch::kCUDA);
  Loader loader(data, loader_options(options));
  expect_same_epoch(batches, loader, 0);
  expect_same_epoch(batches, loader, 1);
}

// Several rounds for each thread: more work than blocks that run at the same time.
TEST_F(DeviceBatchesCuda, LargeBatchesOfLargeImages) {
  const auto data = random_data({3, 96, 96}, 300);
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    for (const bool channels_last : {false, true}) {
      auto options = training_options(256);
      options.dtype = dtype;
      options.channels_last = channels_last;
      DeviceBatches batches(*data, options, torch::kCUDA);
      Loader loader(data, loader_options(options));
      expect_same_epoch(batches, loader, 0);
    }
  }
}

TEST_F(DeviceBatchesCuda, CropsMayMissTheImage) {
  const auto data = random_data({3, 5, 8}, 50);
  auto options = training_options();
  options.augment = {20, 1.0};
  options.channels_last = true;
  DeviceBatches batches(*data, options, torch::kCUDA);
  Loader loader(data, loader_options(options));
  expect_same_epoch(batches, loader, 0);
}

TEST_F(DeviceBatchesCuda, ABatchLargerThanTheDataIsTheData) {
  const auto data = random_data({3, 8, 8}, 20);
  const auto options = training_options(std::int64_t{1} << 40);
  DeviceBatches batches(*data, options, torch::kCUDA);
  Loader loader(data, loader_options(options));
  EXPECT_EQ(batches.batch_size(0), 20);
  expect_same_epoch(batches, loader, 0);
}

TEST_F(DeviceBatchesCuda, TensorsNeedNoAlignment) {
  const auto data = random_data({3, 8, 8}, 32);
  auto options = training_options();
  options.dtype = torch::kBFloat16;
  DeviceBatches batches(*data, options, torch::kCUDA);
  Loader loader(data, loader_options(options));
  DeviceBatch batch(batches, 16);
  const auto elements = batch.images.numel();
  const auto memory = torch::full({elements + 2}, 123.0F, batch.images.options());
  batch.images = memory.narrow(0, 1, elements).view(batch.images.sizes());
  batches.start(0);
  batches.enqueue_next(batch.images, batch.labels);
  expect_same(batch, all_batches(loader, 0)[0]);
  EXPECT_EQ(memory[0].item<float>(), 123.0F);
  EXPECT_EQ(memory[-1].item<float>(), 123.0F);
}

TEST_F(DeviceBatchesCuda, EvaluationKeepsTheOrderAndOnlyNormalizes) {
  const auto data = random_data({3, 8, 8}, 103);
  auto options = DeviceBatches::Options::evaluation();
  options.batch_size = 50;
  DeviceBatches batches(*data, options, torch::kCUDA);
  batches.start(0, 2);
  DeviceBatch batch(batches, 3);
  batches.enqueue_next(batch.images, batch.labels);
  EXPECT_TRUE(torch::equal(batch.labels.cpu(), data->labels().narrow(0, 100, 3)));
  EXPECT_TRUE(torch::equal(
      batch.images[1].cpu(),
      adaact::augment_reference(data->images()[101], data->normalization(), options.augment, {})));
}

// The order of the next epoch is written while batches of the one before may not have been.
TEST_F(DeviceBatchesCuda, EpochsMayBeEnqueuedWithoutWaiting) {
  const auto data = random_data({3, 32, 32}, 1003);
  const auto options = training_options(64);
  DeviceBatches batches(*data, options, torch::kCUDA);
  std::vector<DeviceBatch> written;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    for (std::int64_t i = 0; i < batches.batches_per_epoch(); ++i) {
      written.emplace_back(batches, batches.batch_size(i));
    }
  }
  torch::cuda::synchronize();
  auto next = written.begin();
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    batches.start(epoch);
    for (std::int64_t i = 0; i < batches.batches_per_epoch(); ++i, ++next) {
      batches.enqueue_next(next->images, next->labels);
    }
  }
  Loader loader(data, loader_options(options));
  next = written.begin();
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    for (const auto& expected : all_batches(loader, epoch)) expect_same(*next++, expected);
  }
}

/// A graph whose replay writes the next batch.
class CapturedBatch : public DeviceBatch {
 public:
  CapturedBatch(DeviceBatches& batches, std::int64_t size) : DeviceBatch(batches, size) {
    torch::cuda::synchronize();
    const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
    graph_.capture_begin();
    batches.enqueue_next(images, labels);
    graph_.capture_end();
  }

  void replay() {
    poison();
    graph_.replay();
  }

 private:
  at::cuda::CUDAGraph graph_;
};

TEST_F(DeviceBatchesCuda, ReplaysOfAGraphGoThroughTheEpochs) {
  const auto data = random_data({3, 32, 32}, 203);
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    auto options = training_options(32);
    options.dtype = dtype;
    options.channels_last = true;
    DeviceBatches batches(*data, options, torch::kCUDA);
    Loader loader(data, loader_options(options));
    batches.start(0);
    CapturedBatch whole(batches, batches.batch_size(0));
    CapturedBatch last(batches, batches.batch_size(batches.batches_per_epoch() - 1));
    const auto expect_replayed_epoch = [&](std::int64_t epoch, std::int64_t first) {
      batches.start(epoch, first);
      for (const auto& expected : all_batches(loader, epoch, first)) {
        auto& batch = expected.index + 1 == batches.batches_per_epoch() ? last : whole;
        batch.replay();
        expect_same(batch, expected);
      }
    };
    expect_replayed_epoch(0, 0);
    expect_replayed_epoch(1, 0);
    expect_replayed_epoch(1, 3);
    expect_replayed_epoch(0, 0);
  }
}

TEST_F(DeviceBatchesCuda, ReplaysAndPlainCallsMayAlternate) {
  const auto data = random_data({1, 28, 28}, 160);
  const auto options = training_options();
  DeviceBatches batches(*data, options, torch::kCUDA);
  Loader loader(data, loader_options(options));
  batches.start(0);
  CapturedBatch captured(batches, 16);
  for (const auto& expected : all_batches(loader, 0)) {
    if (expected.index % 2 == 0) {
      captured.replay();
      expect_same(captured, expected);
    } else {
      DeviceBatch batch(batches, 16);
      batches.enqueue_next(batch.images, batch.labels);
      expect_same(batch, expected);
    }
  }
}

TEST_F(DeviceBatchesCuda, ObjectsOnTwoStreamsDoNotDisturbEachOther) {
  struct Side {
    std::shared_ptr<ImageTensorDataset> data;
    DeviceBatches::Options options;
    c10::cuda::CUDAStream stream;
    std::unique_ptr<DeviceBatches> batches;
    std::vector<DeviceBatch> written;
  };
  auto first_options = training_options(32);
  auto second_options = training_options(48);
  second_options.seed = 4;
  second_options.dtype = torch::kHalf;
  second_options.channels_last = true;
  std::array<Side, 2> sides{
      Side{random_data({3, 32, 32}, 640), first_options, c10::cuda::getStreamFromPool(), {}, {}},
      Side{random_data({1, 28, 28}, 960), second_options, c10::cuda::getStreamFromPool(), {}, {}}};
  for (auto& side : sides) {
    side.batches = std::make_unique<DeviceBatches>(*side.data, side.options, torch::kCUDA);
    for (std::int64_t i = 0; i < 2 * side.batches->batches_per_epoch(); ++i) {
      side.written.emplace_back(*side.batches, side.options.batch_size);
    }
  }
  torch::cuda::synchronize();
  ASSERT_EQ(sides[0].written.size(), sides[1].written.size());
  for (std::size_t i = 0; i < sides[0].written.size(); ++i) {
    for (auto& side : sides) {
      const c10::cuda::CUDAStreamGuard guard(side.stream);
      const auto per_epoch = static_cast<std::size_t>(side.batches->batches_per_epoch());
      if (i % per_epoch == 0) side.batches->start(static_cast<std::int64_t>(i / per_epoch));
      side.batches->enqueue_next(side.written[i].images, side.written[i].labels);
    }
  }
  torch::cuda::synchronize();
  for (auto& side : sides) {
    Loader loader(side.data, loader_options(side.options));
    auto written = side.written.begin();
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      for (const auto& expected : all_batches(loader, epoch)) expect_same(*written++, expected);
    }
  }
}

TEST_F(DeviceBatchesCuda, NothingComesAfterTheEndOfAnEpoch) {
  const auto data = random_data({3, 8, 8}, 39);
  for (const bool drop_last : {false, true}) {
    auto options = training_options();
    options.drop_last = drop_last;
    DeviceBatches batches(*data, options, torch::kCUDA);
    Loader loader(data, loader_options(options));
    batches.start(0, 2);
    DeviceBatch batch(batches, 16);  // where there are only 7 more, or none
    batches.enqueue_next(batch.images, batch.labels);
    const std::int64_t left = drop_last ? 0 : 7;
    const auto labels = batch.labels.cpu();
    EXPECT_TRUE((labels.narrow(0, left, 16 - left) == -1).all().item<bool>());
    EXPECT_TRUE((labels.narrow(0, 0, left) >= 0).all().item<bool>());
    batches.enqueue_next(batch.images, batch.labels);
    EXPECT_TRUE((batch.labels == -1).all().item<bool>());
    expect_same_epoch(batches, loader, 1);
  }
}

TEST_F(DeviceBatchesCuda, MadeInInferenceModeItServesTraining) {
  const auto data = random_data({3, 8, 8}, 32);
  const auto options = training_options();
  std::unique_ptr<DeviceBatches> batches;
  {
    const torch::InferenceMode inference;
    batches = std::make_unique<DeviceBatches>(*data, options, torch::kCUDA);
    batches->start(0);
  }
  Loader loader(data, loader_options(options));
  expect_same_epoch(*batches, loader, 1);
}

/// A data set that is larger than the memory of any GPU.
class HugeDataset : public adaact::Dataset {
 public:
  HugeDataset() : Dataset(DatasetInfo{"huge", {3, 224, 224}, {"a"}, {{0, 0, 0}, {1, 1, 1}}}) {}
  std::int64_t size() const override { return 2'000'000'000; }
  std::int64_t label(std::int64_t /*index*/) const override { return 0; }
  void read(std::int64_t /*index*/, std::uint8_t* /*pixels*/) const override {}
};

TEST_F(DeviceBatchesCuda, SaysWhetherTheDataFit) {
  EXPECT_TRUE(DeviceBatches::fits(*random_data({3, 8, 8}, 10), torch::kCUDA));
  EXPECT_FALSE(DeviceBatches::fits(HugeDataset(), torch::kCUDA));
  const auto error =
      error_of([] { DeviceBatches(HugeDataset(), training_options(), torch::kCUDA); });
  EXPECT_TRUE(contains(error, "the images of huge take 301056000000000 bytes"));
  // After the refusal the GPU still works.
  EXPECT_EQ(torch::ones({2}, torch::kCUDA).sum().item<float>(), 2.0F);
}

TEST_F(DeviceBatchesCuda, BadOptionsSayWhatWasExpected) {
  const auto data = random_data({3, 8, 8}, 103);
  const auto error = [&](const DeviceBatches::Options& options) {
    return error_of([&] { DeviceBatches(*data, options, torch::kCUDA); });
  };
  auto options = training_options();
  options.batch_size = 0;
  EXPECT_TRUE(contains(error(options), "batch_size is 0, expected > 0"));
  options = training_options();
  options.dtype = torch::kDouble;
  EXPECT_TRUE(contains(error(options), "dtype is Double, expected Float, BFloat16 or Half"));
  options = training_options(104);
  options.drop_last = true;
  EXPECT_TRUE(contains(error(options), "nothing remains of 103 samples; batch_size is 104"));
  options = training_options();
  options.augment.crop_padding = -1;
  EXPECT_TRUE(contains(error(options), "crop_padding is -1"));
  options = training_options();
  options.mix.mixup_alpha = 0.5;
  EXPECT_TRUE(
      contains(error(options), "expected no more than crops of the padded image and flips"));
  EXPECT_TRUE(contains(error_of([&] { DeviceBatches(*data, training_options(), torch::kCPU); }),
                       "device is cpu, expected a CUDA device"));
  const auto wide = random_data({5, 2, 2}, 10);
  EXPECT_TRUE(contains(error_of([&] { DeviceBatches(*wide, training_options(), torch::kCUDA); }),
                       "random has 5 channels, expected at most 4"));
}

TEST_F(DeviceBatchesCuda, BadUseSaysWhatWasExpected) {
  const auto data = random_data({3, 8, 8}, 103);
  auto options = training_options();
  options.channels_last = true;
  DeviceBatches batches(*data, options, torch::kCUDA);
  const auto images = batches.empty_images(16);
  const auto labels = batches.empty_labels(16);
  const auto error = [&](const torch::Tensor& given_images, const torch::Tensor& given_labels) {
    return error_of([&] { batches.enqueue_next(given_images, given_labels); });
  };
  EXPECT_TRUE(contains(error(images, labels), "before start()"));
  EXPECT_TRUE(contains(error_of([&] { batches.start(-1); }), "epoch is -1"));
  EXPECT_TRUE(
      contains(error_of([&] { batches.start(0, 8); }), "first_batch is 8, expected 0 to 7"));
  EXPECT_TRUE(contains(error_of([&] { batches.batch_size(7); }), "batch is 7, expected 0 to 6"));
  batches.start(0);
  const std::string expected = "expected Float[16 or 7, 3, 8, 8] in channels-last format on cuda:0";
  EXPECT_TRUE(contains(error(images.to(torch::kHalf), labels), expected));
  EXPECT_TRUE(contains(error(images.cpu(), labels), expected));
  EXPECT_TRUE(contains(error(images.contiguous(), labels), expected));
  EXPECT_TRUE(contains(error(batches.empty_images(15), labels), expected));
  EXPECT_TRUE(contains(error(images[0], labels), expected));
  EXPECT_TRUE(contains(error(torch::Tensor(), labels), "images are undefined"));
  const std::string expected_labels = "expected Long[16] contiguous on cuda:0";
  EXPECT_TRUE(contains(error(images, labels.to(torch::kInt)), expected_labels));
  EXPECT_TRUE(contains(error(images, labels.cpu()), expected_labels));
  EXPECT_TRUE(contains(error(images, batches.empty_labels(7)), expected_labels));
  EXPECT_TRUE(contains(error(images, torch::Tensor()), "labels are undefined"));
}

TEST_F(DeviceBatchesCuda, AnEpochDoesNotStartInACapture) {
  const auto data = random_data({3, 8, 8}, 32);
  DeviceBatches batches(*data, training_options(), torch::kCUDA);
  DeviceBatch batch(batches, 16);
  batches.start(0);
  torch::cuda::synchronize();
  std::string error;
  {
    const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    batches.enqueue_next(batch.images, batch.labels);
    error = error_of([&] { batches.start(1); });
    graph.capture_end();
  }
  EXPECT_TRUE(contains(error, "start() was called in the capture of a graph"));
}

}  // namespace
