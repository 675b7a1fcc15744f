#include <adaact/data/datasets.h>
#include <adaact/data/record_datasets.h>
#include <gtest/gtest.h>

#include "data/record_files.h"
#include "support/errors.h"
#include "support/odd_files.h"
#include "support/peak_memory.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::Dataset;
using adaact::DatasetOptions;
using adaact::open_dataset;
using adaact::Split;
namespace fs = std::filesystem;

DatasetOptions options_for(const fs::path& folder, Split split = Split::Train) {
  DatasetOptions options;
  options.data_dir = folder;
  options.split = split;
  return options;
}

std::string error_opening(const std::string& name, const DatasetOptions& options) {
  return error_of([&] { open_dataset(name, options); });
}

void expect_pixels(const Dataset& dataset, std::int64_t index, std::size_t image) {
  Bytes pixels(static_cast<std::size_t>(dataset.shape().bytes()));
  dataset.read(index, pixels.data());
  for (std::size_t place = 0; place < pixels.size(); ++place) {
    ASSERT_EQ(pixels[place], pixel(image, place)) << "image " << image << ", byte " << place;
  }
  EXPECT_EQ(Bytes(dataset.pixels(index), dataset.pixels(index) + pixels.size()), pixels);
}

class Idx : public ::testing::Test {
 protected:
  fs::path images() const { return folder.path() / "train-images-idx3-ubyte"; }
  fs::path labels() const { return folder.path() / "train-labels-idx1-ubyte"; }
  std::string error() const { return error_opening("mnist", options_for(folder.path())); }

  void write_three() const {
    write_file(images(), idx_images(3));
    write_file(labels(), idx_labels({4, 0, 9}));
  }

  TemporaryFolder folder;
};

TEST_F(Idx, PlainFilesAreRead) {
  write_three();
  const auto dataset = open_dataset("mnist", options_for(folder.path()));
  ASSERT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->classes(), 10);
  EXPECT_EQ(dataset->label(0), 4);
  EXPECT_EQ(dataset->label(2), 9);
  EXPECT_EQ(dataset->normalization().mean, std::vector<float>{.1307F});
  for (std::int64_t i = 0; i < 3; ++i) expect_pixels(*dataset, i, static_cast<std::size_t>(i));
}

TEST_F(Idx, GzipFilesAreRead) {
  write_gzip(folder.path() / "t10k-images-idx3-ubyte.gz", idx_images(2));
  write_gzip(folder.path() / "t10k-labels-idx1-ubyte.gz", idx_labels({1, 8}));
  const auto dataset = open_dataset("fashion-mnist", options_for(folder.path(), Split::Test));
  ASSERT_EQ(dataset->size(), 2);
  expect_pixels(*dataset, 1, 1);
  EXPECT_EQ(dataset->class_names()[static_cast<std::size_t>(dataset->label(1))], "Bag");
  EXPECT_EQ(dataset->normalization().std, std::vector<float>{.3530F});
}

TEST_F(Idx, ALimitTakesTheFirst) {
  write_three();
  auto options = options_for(folder.path());
  options.limit = 2;
  const auto dataset = open_dataset("mnist", options);
  ASSERT_EQ(dataset->size(), 2);
  expect_pixels(*dataset, 1, 1);
  EXPECT_TRUE(contains(error_of([&] { dataset->label(2); }), "sample is 2, expected 0 to 1"));
  options.limit = 100;
  EXPECT_EQ(open_dataset("mnist", options)->size(), 3);
}

TEST_F(Idx, MissingFilesAreNamed) {
  EXPECT_TRUE(contains(error(),
                       "there is neither train-images-idx3-ubyte.gz nor "
                       "train-images-idx3-ubyte in " +
                           folder.path().string()));
  EXPECT_TRUE(contains(error_opening("mnist", options_for(folder.path() / "no")), "no folder"));
  EXPECT_TRUE(contains(error_opening("mnist", {}), "the data set mnist is not here"));
}

TEST_F(Idx, ATruncatedPlainFileIsAnError) {
  write_three();
  auto bytes = idx_images(3);
  bytes.resize(1000);
  write_file(images(), bytes);
  EXPECT_TRUE(contains(error(), images().string() + " is truncated: it ends at byte 1000, in the "
                                                    "images from byte 16 to 2368"));
  bytes.resize(10);
  write_file(images(), bytes);
  EXPECT_TRUE(contains(error(), "it ends at byte 10, in the header from byte 8 to 12"));
}

TEST_F(Idx, ATruncatedGzipFileIsAnError) {
  write_three();
  const auto path = images().string() + ".gz";
  write_gzip(path, idx_images(3));
  auto bytes = read_bytes(path);
  bytes.resize(bytes.size() / 2);
  write_file(path, bytes);
  EXPECT_TRUE(contains(error(), path + " is truncated: its compressed data end early, at byte "));
}

TEST_F(Idx, ADamagedGzipFileIsAnError) {
  write_three();
  const auto path = images().string() + ".gz";
  write_gzip(path, idx_images(3));
  auto bytes = read_bytes(path);
  bytes[bytes.size() - 6] ^= 1;  // its checksum
  write_file(path, bytes);
  EXPECT_TRUE(contains(error(), path + " is damaged at byte "));
}

TEST_F(Idx, ExtraBytesAreAnError) {
  write_three();
  auto bytes = idx_labels({4, 0, 9});
  bytes.push_back(0);
  write_file(labels(), bytes);
  EXPECT_TRUE(contains(error(), labels().string() + " is too long: it goes on after byte 11"));
}

TEST_F(Idx, AWrongMagicNumberIsAnError) {
  write_three();
  write_file(images(), idx_labels({4, 0, 9}));
  EXPECT_TRUE(
      contains(error(), images().string() + " has the magic number 2049 at byte 0, expected 2051"));
}

TEST_F(Idx, AnotherImageSizeIsAnError) {
  write_three();
  write_file(images(), idx_header(2051, {3, 28, 32}));
  EXPECT_TRUE(contains(error(), "has images of side 32 at byte 12, expected 28"));
}

TEST_F(Idx, AHeaderThatAnnouncesTooMuchIsAnError) {
  write_three();
  write_file(images(), idx_header(2051, {0xFFFFFFFF, 28, 28}));
  EXPECT_TRUE(contains(error(), "which a file of 16 bytes cannot hold"));
}

TEST_F(Idx, WhatAPackedFileBecomesIsLimitedByTheHeaders) {
  constexpr std::size_t kMany = 50'000'000;
  constexpr std::int64_t kLittle = 20'000'000;
  write_three();
  auto bytes = idx_images(3);
  bytes.resize(kMany);
  const auto packed_images = images().string() + ".gz";
  write_gzip(packed_images, bytes);
  std::string message;
  EXPECT_LT(peak_memory_of([&] { message = error(); }), kLittle);
  EXPECT_TRUE(contains(message, packed_images + " is too long: it goes on after byte 2368"));
  fs::remove(packed_images);

  bytes = idx_header(2049, {kMany});
  bytes.resize(bytes.size() + kMany);
  write_gzip(labels().string() + ".gz", bytes);
  EXPECT_LT(peak_memory_of([&] { message = error(); }), kLittle);
  EXPECT_TRUE(contains(message, "has 50000000 labels, but "));
}

TEST_F(Idx, APipeIsNotReadFrom) {
  write_three();
  make_pipe(labels().string() + ".gz");
  EXPECT_TRUE(contains(error(), labels().string() + ".gz is a pipe"));
}

TEST_F(Idx, ABadLabelIsAnError) {
  write_three();
  write_file(labels(), idx_labels({4, 10, 9}));
  EXPECT_TRUE(contains(error(),
                       labels().string() + " has label 10 for image 1 at byte 9, expected 0 to 9"));
}

TEST_F(Idx, CountsMustAgree) {
  write_three();
  write_file(labels(), idx_labels({4, 0}));
  EXPECT_TRUE(contains(
      error(), labels().string() + " has 2 labels, but " + images().string() + " has 3 images"));
}

TEST_F(Idx, NoImagesAreAnError) {
  write_file(images(), idx_images(0));
  write_file(labels(), idx_labels({}));
  EXPECT_TRUE(contains(error(), images().string() + " has no images"));
}

TEST(FashionMnist, IsFoundWhereDebianPutsIt) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist")) GTEST_SKIP() << "it is not installed";
  DatasetOptions options;
  options.split = Split::Test;
  const auto dataset = open_dataset("fashion-mnist", options);
  EXPECT_EQ(dataset->size(), 10000);
  EXPECT_EQ(dataset->class_names()[static_cast<std::size_t>(dataset->label(0))], "Ankle boot");
}

class Cifar : public ::testing::Test {
 protected:
  void write_cifar10(const fs::path& place) const {
    for (std::size_t i = 0; i < 5; ++i) {
      const auto label = static_cast<std::uint8_t>(i);
      write_file(place / ("data_batch_" + std::to_string(i + 1) + ".bin"),
                 cifar_records({{label}, {9}}, 2 * i));
    }
    write_file(place / "test_batch.bin", cifar_records({{7}}));
  }
  std::string error(const char* name) const {
    return error_opening(name, options_for(folder.path()));
  }

  TemporaryFolder folder;
};

TEST_F(Cifar, Cifar10IsItsFilesInOrder) {
  write_cifar10(folder.path());
  const auto dataset = open_dataset("cifar10", options_for(folder.path()));
  ASSERT_EQ(dataset->size(), 10);
  for (std::int64_t i = 0; i < 10; ++i) {
    expect_pixels(*dataset, i, static_cast<std::size_t>(i));
    EXPECT_EQ(dataset->label(i), i % 2 == 0 ? i / 2 : 9);
  }
  EXPECT_EQ(dataset->class_names()[3], "3");
  EXPECT_EQ(dataset->normalization().std[2], .2616F);
  const auto test = open_dataset("cifar10", options_for(folder.path(), Split::Test));
  ASSERT_EQ(test->size(), 1);
  EXPECT_EQ(test->label(0), 7);
}

TEST_F(Cifar, TheUnpackedArchiveIsFound) {
  const auto place = folder.path() / "cifar-10-batches-bin";
  write_cifar10(place);
  write_text(place / "batches.meta.txt",
             "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\r\ntruck\n\n");
  auto options = options_for(folder.path());
  options.limit = 3;
  const auto dataset = open_dataset("cifar10", options);
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->class_names()[8], "ship");
  EXPECT_EQ(dataset->class_names()[9], "truck");
}

TEST_F(Cifar, Cifar100HasItsFineLabels) {
  write_file(folder.path() / "train.bin", cifar_records({{19, 99}, {0, 5}}));
  const auto dataset = open_dataset("cifar100", options_for(folder.path()));
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->classes(), 100);
  EXPECT_EQ(dataset->label(0), 99);
  EXPECT_EQ(dataset->label(1), 5);
  expect_pixels(*dataset, 1, 1);
}

TEST_F(Cifar, AWrongNumberOfClassNamesIsAnError) {
  write_file(folder.path() / "train.bin", cifar_records({{19, 99}}));
  write_text(folder.path() / "fine_label_names.txt", "apple\nbear\n");
  EXPECT_TRUE(contains(error("cifar100"), "fine_label_names.txt has 2 class names, expected 100"));
}

TEST_F(Cifar, BadLabelsAreErrors) {
  write_cifar10(folder.path());
  write_file(folder.path() / "data_batch_2.bin", cifar_records({{3}, {10}}));
  EXPECT_TRUE(contains(error("cifar10"),
                       "data_batch_2.bin has label 10 in record 1 at byte 3073, expected 0 to 9"));
  write_file(folder.path() / "train.bin", cifar_records({{1, 1}, {20, 5}}));
  EXPECT_TRUE(contains(error("cifar100"),
                       "train.bin has label 20 in record 1 at byte 3074, expected 0 to 19"));
  write_file(folder.path() / "train.bin", cifar_records({{1, 100}}));
  EXPECT_TRUE(contains(error("cifar100"), "has label 100 in record 0 at byte 1"));
}

TEST_F(Cifar, IncompleteRecordsAreErrors) {
  write_cifar10(folder.path());
  const auto path = folder.path() / "data_batch_5.bin";
  auto bytes = cifar_records({{1}, {2}});
  bytes.pop_back();
  write_file(path, bytes);
  EXPECT_TRUE(contains(error("cifar10"),
                       path.string() + " is truncated or has extra bytes: record 1 at byte 3073 "
                                       "has 3072 bytes, expected 3073"));
  write_file(path, {});
  EXPECT_TRUE(contains(error("cifar10"), path.string() + " is empty"));
  fs::remove(path);
  EXPECT_TRUE(contains(error("cifar10"), "there is no file " + path.string()));
  EXPECT_TRUE(contains(error_opening("cifar10", options_for(make_pipe(path).parent_path())),
                       path.string() + " is a pipe"));
}

TEST_F(Cifar, APackedFileUnderAnUnpackedNameIsAnError) {
  const auto path = folder.path() / "train.bin";
  write_gzip(path, cifar_records({{1, 1}, {2, 2}, {3, 3}}));
  auto bytes = read_bytes(path);
  bytes.resize((bytes.size() / 3074 + 1) * 3074);  // zeros behind it are ignored
  ASSERT_LT(bytes.size(), 3 * 3074U);
  write_file(path, bytes);
  EXPECT_TRUE(contains(error("cifar100"), path.string() + " is too long"));
}

}  // namespace
