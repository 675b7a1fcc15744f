#include <adaact/train/test_details.h>

#include <cmath>

#include <adaact/train/evaluate.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "data/decode_image.h"
#include "io/base64.h"
#include "support/errors.h"
#include "support/made_up_details.h"
#include "support/thread_ranks.h"
#include "train/step/details_collector.h"
#include "train/step/rank_totals.h"
#include "train/step/thumbnail.h"

namespace {

using adaact::DetailsCollector;
using adaact::ImageTensorDataset;
using adaact::TestDetails;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::kRedPixel;
using adaact::testing::made_up_details;
using adaact::testing::on_ranks;
using adaact::testing::ThreadRank;

std::shared_ptr<ImageTensorDataset> images(std::int64_t count, adaact::ImageShape shape) {
  adaact::DatasetInfo info{"made up", shape, {"cat", "dog", "owl"}, {}};
  info.normalization.mean.assign(static_cast<std::size_t>(shape.channels), 0.5F);
  info.normalization.std.assign(static_cast<std::size_t>(shape.channels), 0.5F);
  const auto pixels = torch::arange(count * shape.bytes()).remainder(251).to(torch::kByte);
  return std::make_shared<ImageTensorDataset>(
      info, pixels.reshape({count, shape.channels, shape.height, shape.width}),
      torch::arange(count).remainder(3));
}

adaact::Batch batch_of(const ImageTensorDataset& data, std::int64_t from, std::int64_t count) {
  adaact::Batch batch;
  batch.labels = data.labels().narrow(0, from, count);
  batch.samples = torch::arange(from, from + count);
  return batch;
}

/// Of images [from, from + count), of which each has the logits of its place in the data.
TestDetails details_of(const ImageTensorDataset& data, std::int64_t from, std::int64_t count) {
  const auto logits = torch::arange(3 * data.size()).mul(0.37).sin().view({-1, 3}).mul(4.0);
  const auto own = logits.narrow(0, from, count);
  DetailsCollector collector(data);
  collector.add(batch_of(data, from, count), own, own.argmax(1));
  return collector.details();
}

TEST(TestDetails, OfSeveralRanksAreThoseOfAllImages) {
  const auto data = images(60, {1, 2, 2});
  const auto whole = details_of(*data, 0, 60);
  ASSERT_EQ(whole.most_wrong.size(), adaact::kMostWrongImages);
  on_ranks(3, [&](const std::shared_ptr<ThreadRank>& rank) {
    const std::int64_t begin[] = {0, 7, 31, 60};
    const auto own = begin[rank->rank()];
    const auto part = details_of(*data, own, begin[rank->rank() + 1] - own);
    EXPECT_EQ(adaact::of_all_ranks(part, *rank).to_json(), whole.to_json());
  });
}

TEST(TestDetails, AreCountedByClassAndPrediction) {
  const auto data = images(6, {1, 2, 2});
  DetailsCollector collector(*data);
  const auto logits = torch::zeros({6, 3});
  // The first cat is taken for a dog, the second owl for a cat; the latter more certainly.
  const std::int64_t predicted[] = {1, 1, 2, 0, 1, 0};
  for (int i = 0; i < 6; ++i) logits[i][predicted[i]] = 1.0 + i;
  const auto classes = torch::tensor({1, 1, 2, 0, 1, 0}, torch::kLong);
  collector.add(batch_of(*data, 0, 4), logits.narrow(0, 0, 4), classes.narrow(0, 0, 4));
  collector.add(batch_of(*data, 4, 2), logits.narrow(0, 4, 2), classes.narrow(0, 4, 2));
  const auto details = collector.details();
  EXPECT_EQ(details.matrix(), (std::vector<std::int64_t>{1, 1, 0, 0, 2, 0, 1, 0, 1}));
  EXPECT_DOUBLE_EQ(details.by_class()[0].accuracy(), 0.5);
  EXPECT_DOUBLE_EQ(details.by_class()[1].accuracy(), 1.0);
  ASSERT_EQ(details.most_wrong.size(), 2U);
  EXPECT_EQ(details.most_wrong[0].index, 5);
  EXPECT_EQ(details.most_wrong[0].label, 2);
  EXPECT_EQ(details.most_wrong[0].predicted, 0);
  EXPECT_NEAR(details.most_wrong[0].probability, std::exp(6.0) / (std::exp(6.0) + 2.0), 1e-6);
  EXPECT_EQ(details.mistakes().size(), 2U);
}

TEST(TestDetails, KeepADozenImagesAndNoneWithoutAProbability) {
  const auto data = images(60, {1, 2, 2});
  DetailsCollector collector(*data);
  auto logits = torch::zeros({60, 3});
  logits[1][0] = NAN;
  collector.add(batch_of(*data, 0, 60), logits, torch::zeros({60}, torch::kLong));
  const auto details = collector.details();
  ASSERT_EQ(details.most_wrong.size(), adaact::kMostWrongImages);
  EXPECT_EQ(details.most_wrong[0].index, 2) << "of equals the first";
  EXPECT_EQ(details.most_wrong[1].index, 4);
}

TEST(TestDetails, AreReadAsTheyWereWritten) {
  const auto details = made_up_details(3);
  const auto again = TestDetails::from_json(details.to_json(), "a file");
  EXPECT_EQ(again.to_json(), details.to_json());
  EXPECT_EQ(again.most_wrong.at(0).png, kRedPixel);
  EXPECT_TRUE(std::isnan(TestDetails::OfClass{}.accuracy()));
}

TEST(TestDetails, WhatIsWrongWithAFileIsNamed) {
  const auto refusal = [](const std::string& text) {
    return error_of([&] { TestDetails::from_json(text, "a file"); });
  };
  EXPECT_TRUE(contains(refusal("["), "a file has no details of a test: "));
  EXPECT_TRUE(contains(refusal("[]"), "no JSON object"));
  EXPECT_TRUE(contains(refusal("{}"), "classes"));
  const std::string begin = R"({"classes":["a","b"],"confusions":)";
  EXPECT_TRUE(contains(refusal(begin + R"([[0,2,1]],"most_wrong":[]})"),
                       "prediction is 2, expected 0 to 1"));
  EXPECT_TRUE(contains(refusal(begin + R"([[0,1,-1]],"most_wrong":[]})"), "images is -1"));
  EXPECT_TRUE(contains(refusal(begin + R"([[0,1]],"most_wrong":[]})"), "no list of class"));
  EXPECT_TRUE(contains(refusal(begin + R"({},"most_wrong":[]})"), "confusions is no list"));
  const auto image = [&](const std::string& probability, const std::string& png) {
    return begin + R"([],"most_wrong":[{"index":0,"class":0,"prediction":1,"probability":)" +
           probability + R"(,"png":")" + png + "\"}]}";
  };
  EXPECT_TRUE(contains(refusal(image("2", "")), "probability is 2, expected 0 to 1"));
  EXPECT_TRUE(contains(refusal(image("1", "<svg>===")), "png is no picture"));
  EXPECT_TRUE(contains(refusal(image("1", std::string(40000, 'A'))), "png is no picture"));
}

TEST(TestDetails, AFileThatIsNotThereIsNone) {
  EXPECT_FALSE(adaact::read_test_details("/nowhere/test_details.json").has_value());
}

TEST(Thumbnail, AnImageThatFitsIsAsItWas) {
  const auto data = images(2, {3, 5, 7});
  const auto png = adaact::thumbnail_png(*data, 1, 48);
  const auto image = adaact::decode_png({"thumbnail", {png.begin(), png.end()}});
  EXPECT_EQ(image.width, 7);
  EXPECT_EQ(image.height, 5);
  const auto* planes = data->pixels(1);
  for (std::int64_t pixel = 0; pixel < 35; ++pixel) {
    for (std::int64_t channel = 0; channel < 3; ++channel) {
      EXPECT_EQ(image.pixels[static_cast<std::size_t>(3 * pixel + channel)],
                planes[channel * 35 + pixel]);
    }
  }
}

TEST(Thumbnail, ALargeImageIsAveraged) {
  const auto data = images(1, {1, 4, 6});
  const auto png = adaact::thumbnail_png(*data, 0, 3);
  const auto image = adaact::decode_png({"thumbnail", {png.begin(), png.end()}});
  EXPECT_EQ(image.width, 3);
  EXPECT_EQ(image.height, 2);
  EXPECT_EQ(image.pixels[0], 4);  // of 0, 1, 6 and 7, rounded
}

TEST(Base64, IsAsTheStandardHasIt) {
  EXPECT_EQ(adaact::to_base64(""), "");
  EXPECT_EQ(adaact::to_base64("f"), "Zg==");
  EXPECT_EQ(adaact::to_base64("fo"), "Zm8=");
  EXPECT_EQ(adaact::to_base64("foo"), "Zm9v");
  EXPECT_EQ(adaact::to_base64("foob"), "Zm9vYg==");
  EXPECT_EQ(adaact::to_base64("\xff\xfe"), "//4=");
  for (const char* good : {"", "Zg==", "Zm8=", "Zm9v"}) EXPECT_TRUE(adaact::is_base64(good));
  for (const char* bad : {"Zg=", "Z===", "Zg==Zg==", "Zm9\"", "Zm9v\n"}) {
    EXPECT_FALSE(adaact::is_base64(bad)) << bad;
  }
}

}  // namespace
