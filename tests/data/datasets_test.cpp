#include <cstdlib>
#include <fstream>

#include <adaact/data/datasets.h>
#include <adaact/data/synthetic.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/temporary_folder.h"

namespace {

using adaact::DatasetOptions;
using adaact::ImageTensorDataset;
using adaact::make_synthetic;
using adaact::open_dataset;
using adaact::Split;
using adaact::SyntheticOptions;
using adaact::testing::contains;
using adaact::testing::error_of;

TEST(Datasets, AnUnknownNameListsTheKnown) {
  EXPECT_TRUE(contains(error_of([] { open_dataset("imagenet", {}); }),
                       "no data set 'imagenet'; there are: cifar10, cifar100, fashion-mnist, "
                       "image-folder, mnist, synthetic"));
}

TEST(Datasets, APartOfAnImageIsScaledToTheSizeOfAll) {
  SyntheticOptions options;
  options.shape = {2, 8, 6};
  options.size = 3;
  const auto data = make_synthetic(options);
  std::vector<std::uint8_t> pixels(2 * 8 * 6);
  data->read_part(
      1,
      [](std::int64_t height, std::int64_t width) {
        EXPECT_EQ(height, 8);
        EXPECT_EQ(width, 6);
        return adaact::ImagePart{{3, 2, 1, 1}, adaact::ResampleFilter::Bicubic, false};
      },
      pixels.data());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    EXPECT_EQ(pixels[i],
              data->images()[1][static_cast<std::int64_t>(i / 48)][3][2].item<std::uint8_t>());
  }
  const auto all = [](std::int64_t height, std::int64_t width) {
    return adaact::ImagePart{{0, 0, height, width}, adaact::ResampleFilter::Bilinear, true};
  };
  data->read_part(2, all, pixels.data());
  const auto part = torch::from_blob(pixels.data(), {2, 8, 6}, torch::kByte);
  EXPECT_TRUE(torch::equal(part, data->images()[2].flip({2})));
}

TEST(Datasets, BadOptionsSayWhatWasExpected) {
  const auto error = [](const char* name, const DatasetOptions& options) {
    return error_of([&] { open_dataset(name, options); });
  };
  DatasetOptions options;
  EXPECT_TRUE(
      contains(error("cifar10", options),
               "the data set cifar10 is not here: there is no folder data/cifar10; unpack"));
  EXPECT_TRUE(contains(error("image-folder", options), "the data set image-folder is not here"));
  options.image_size = 64;
  EXPECT_TRUE(contains(error("cifar100", options), "image_size is 64, expected 0 or 32"));
  options.image_size = -1;
  EXPECT_TRUE(contains(error("synthetic", options), "synthetic: image_size is -1"));
  options.image_size = 0;
  options.limit = -5;
  EXPECT_TRUE(contains(error("synthetic", options), "synthetic: limit is -5, expected >= 0"));
}

TEST(Datasets, AreFoundInTheFolderDataByTheirNames) {
  const adaact::testing::TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::create_directories(folder.path() / "data" / "cifar10");
  std::filesystem::current_path(folder.path());
  const auto found = adaact::datasets_found();
  const auto error = error_of([] { open_dataset("cifar10", {}); });
  std::filesystem::current_path(before);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.front().first, "cifar10");
  EXPECT_EQ(found.front().second, std::filesystem::path("data/cifar10"));
  EXPECT_TRUE(contains(error, "data/cifar10/data_batch_1.bin")) << error;
}

TEST(Datasets, AreToldByTheirFiles) {
  const auto told_by = [](const std::string& file) {
    const adaact::testing::TemporaryFolder folder;
    const auto path = folder.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "";
    return adaact::dataset_in(folder.path());
  };
  EXPECT_EQ(told_by("train-images-idx3-ubyte.gz"), "fashion-mnist");
  EXPECT_EQ(told_by("data_batch_1.bin"), "cifar10");
  EXPECT_EQ(told_by("cifar-10-batches-bin/data_batch_1.bin"), "cifar10");
  EXPECT_EQ(told_by("cifar-100-binary/train.bin"), "cifar100");
  EXPECT_EQ(told_by("cat/1.jpg"), "image-folder");
  EXPECT_EQ(told_by("train/cat/1.jpg"), "image-folder");
  EXPECT_EQ(told_by("train/000000.tar"), "image-folder");
  EXPECT_EQ(told_by("000000.tar"), "image-folder");
  EXPECT_EQ(told_by("1.jpg"), "");
  EXPECT_EQ(told_by(".git/1.jpg"), "");
  EXPECT_EQ(adaact::dataset_in("/nowhere"), "");
}

TEST(Datasets, DigitsAndLettersMayNotBeMirrored) {
  EXPECT_FALSE(adaact::may_be_mirrored("mnist"));
  EXPECT_TRUE(adaact::may_be_mirrored("fashion-mnist"));
  using Names = std::vector<std::string>;
  EXPECT_FALSE(adaact::may_be_mirrored(Names{"0", "1", "b"}));
  EXPECT_TRUE(adaact::may_be_mirrored(Names{"0", "1", "ten"}));
}

TEST(Datasets, TensorsMustFitTheirDescription) {
  const adaact::DatasetInfo info{"mine", {1, 2, 2}, {"a", "b"}, {{0.5F}, {0.5F}}};
  const auto error = [&](const torch::Tensor& images, const torch::Tensor& labels) {
    return error_of([&] { ImageTensorDataset(info, images, labels); });
  };
  const auto images = torch::zeros({2, 1, 2, 2}, torch::kByte);
  const auto labels = torch::zeros({2}, torch::kLong);
  EXPECT_TRUE(contains(error(torch::zeros({2, 1, 2, 3}, torch::kByte), labels), "[2, 1, 2, 3]"));
  EXPECT_TRUE(contains(error(images.to(torch::kFloat), labels), "expected CPUByteType"));
  EXPECT_TRUE(contains(error(images, labels.narrow(0, 0, 1)), "expected CPULongType[2]"));
  EXPECT_TRUE(contains(error(images, labels + 2), "label of sample 0 is 2, expected 0 to 1"));
  EXPECT_TRUE(contains(error(images.narrow(0, 0, 0), labels.narrow(0, 0, 0)), "no images"));
}

TEST(Synthetic, ComesThroughTheRegistry) {
  DatasetOptions options;
  options.limit = 12;
  options.image_size = 8;
  const auto dataset = open_dataset("synthetic", options);
  EXPECT_EQ(dataset->size(), 12);
  EXPECT_EQ(dataset->shape().bytes(), 3 * 8 * 8);
  EXPECT_EQ(dataset->label(11), 1);
}

TEST(Synthetic, DependsOnSeedAndSplitAlone) {
  SyntheticOptions options;
  options.size = 40;
  const auto images = make_synthetic(options)->images();
  EXPECT_TRUE(torch::equal(images, make_synthetic(options)->images()));
  auto longer = options;
  longer.size = 60;
  EXPECT_TRUE(torch::equal(images, make_synthetic(longer)->images().narrow(0, 0, 40)));
  auto other = options;
  other.seed = 1;
  EXPECT_FALSE(torch::equal(images, make_synthetic(other)->images()));
  other = options;
  other.split = Split::Test;
  EXPECT_FALSE(torch::equal(images, make_synthetic(other)->images()));
}

TEST(Synthetic, HasTheNormalizationItSays) {
  SyntheticOptions options;
  options.size = 2000;
  options.classes = 200;
  const auto dataset = make_synthetic(options);
  const auto pixels = dataset->images().to(torch::kFloat) / 255;
  EXPECT_NEAR(pixels.mean().item<double>(), dataset->normalization().mean[0], 0.01);
  EXPECT_NEAR(pixels.std().item<double>(), dataset->normalization().std[0], 0.01);
}

TEST(Synthetic, CanBeLearnt) {
  SyntheticOptions options;
  options.size = 500;
  const auto train = make_synthetic(options);
  options.split = Split::Test;
  const auto test = make_synthetic(options);
  const auto rows = [](const ImageTensorDataset& data) {
    return (data.images().to(torch::kFloat) / 255 - 0.5).flatten(1);
  };
  // The nearest mean of a class, seen in other images.
  const auto means = torch::stack(rows(*train).split(10)).mean(0);
  const auto nearest = torch::cdist(rows(*test), means).argmin(1);
  EXPECT_GT(nearest.eq(test->labels()).to(torch::kFloat).mean().item<double>(), 0.95);
}

TEST(Synthetic, RefusesNothing) {
  EXPECT_TRUE(contains(error_of([] { make_synthetic({0}); }), "size is 0, expected > 0"));
  EXPECT_TRUE(contains(error_of([] { make_synthetic({5, 0}); }), "classes is 0, expected > 0"));
}

}  // namespace
