// Parts of photographs that are decoded where their batch is finished.

#include "data/encoded_part.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <adaact/data/image_folder.h>
#include <adaact/data/loader.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "data/exif_files.h"
#include "data/image_files.h"
#include "data/loader_support.h"
#include "data/record_files.h"
#include "support/errors.h"
#include "support/libtorch.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::encoded_part;
using adaact::ImageFolder;
using adaact::ImageFolderOptions;
using adaact::ImagePart;
using adaact::Loader;
using adaact::LoaderOptions;
namespace fs = std::filesystem;

constexpr std::int64_t kPartSize = 12;

/// Takes codes of pixels out of the middle: what stands before and behind them is sound.
void take_pixels_out(const fs::path& path) {
  auto text = text_of(path);
  text.erase(text.size() * 3 / 4, text.size() / 4 - 2);
  write_text(path, text);
}

class EncodedParts : public ::testing::Test {
 protected:
  EncodedParts() {
    for (int i = 0; i < 9; ++i) {
      write_jpeg(photograph("ant", i), varied_image(17 + i % 6, 40 - 2 * i, 3));
      write_jpeg(photograph("bee", i), varied_image(40 - i, 17 + i % 6, 3),
                 {JCS_RGB, false, i % 2 == 0});
    }
    write_jpeg(photograph("bee", 9), varied_image(20, 22, 1), {JCS_GRAYSCALE});
    write_jpeg(photograph("bee", 10), varied_image(80, 90, 3));  // decoded at half its size
    write_png(photograph("bee", 11), varied_image(19, 16, 3));
    write_text(photograph("bee", 12),
               jpeg_with_exif(text_of(photograph("bee", 3)), exif_data(6, false)));
  }

  fs::path photograph(const std::string& name, int number) const {
    return folder_.path() / "train" / name / (std::to_string(number) + ".jpg");
  }
  std::shared_ptr<ImageFolder> data(bool skips = false) const {
    ImageFolderOptions options;
    options.root = folder_.path();
    options.image_size = kPartSize;
    options.skip_bad_images = skips;
    return std::make_shared<ImageFolder>(options);
  }
  bool is_taken(const fs::path& path) const {
    return encoded_part(
               read_bytes(path),
               [](std::int64_t height, std::int64_t width) {
                 return ImagePart{{0, 0, height, width}};
               },
               kPartSize)
        .has_value();
  }

  TemporaryFolder folder_;
};

LoaderOptions recipe(std::int64_t workers = 2) {
  auto options = small_options(workers);
  options.batch_size = 8;
  options.augment.resized_crop.emplace();
  options.augment.rand_augment.emplace();
  options.mix = {0.8, 1.0};
  return options;
}

LoaderOptions decoded_at_once(LoaderOptions options) {
  options.at_once = true;
  options.decode_at_once = true;
  return options;
}

TEST_F(EncodedParts, AreThoseOfPlainJpegsThatStandUpright) {
  EXPECT_TRUE(is_taken(photograph("ant", 0)));
  EXPECT_TRUE(is_taken(photograph("bee", 0)));
  EXPECT_TRUE(is_taken(photograph("bee", 9)));
  EXPECT_FALSE(is_taken(photograph("bee", 10)));
  EXPECT_FALSE(is_taken(photograph("bee", 11)));
  EXPECT_FALSE(is_taken(photograph("bee", 12)));
}

TEST_F(EncodedParts, OfDataWithoutFilesThereAreNone) {
  EXPECT_TRUE(small_data()->encoded(0).empty());
  EXPECT_FALSE(encoded_part({}, {}, kPartSize).has_value());
}

TEST_F(EncodedParts, BatchesHaveTheBitsOfThoseDecodedOneByOne) {
  Loader one_by_one(data(), recipe(0));
  for (const std::int64_t workers : {0, 2}) {
    Loader at_once(data(), decoded_at_once(recipe(workers)));
    for (const std::int64_t epoch : {0, 1}) {
      const auto expected = all_batches(one_by_one, epoch);
      const auto batches = all_batches(at_once, epoch);
      ASSERT_EQ(batches.size(), expected.size());
      for (std::size_t i = 0; i < batches.size(); ++i) expect_same(batches[i], expected[i]);
    }
  }
}

TEST_F(EncodedParts, OneThatCannotBeDecodedIsReplacedAsEver) {
  const auto folder = data(/*skips=*/true);
  take_pixels_out(photograph("ant", 4));
  ASSERT_TRUE(is_taken(photograph("ant", 4)));
  const WarningCapture warnings;
  Loader one_by_one(folder, recipe(0));
  Loader at_once(folder, decoded_at_once(recipe()));
  const auto expected = all_batches(one_by_one, 0);
  const auto batches = all_batches(at_once, 0);
  for (std::size_t i = 0; i < batches.size(); ++i) expect_same(batches[i], expected[i]);
  EXPECT_TRUE(
      std::any_of(warnings.messages.begin(), warnings.messages.end(), [](const auto& message) {
        return message.find("5.jpg takes its place") != std::string::npos;
      }));
}

TEST_F(EncodedParts, OneThatCannotBeDecodedIsAnErrorUntilTheNextStart) {
  take_pixels_out(photograph("ant", 4));
  auto options = decoded_at_once(recipe(1));
  options.shuffle = false;
  Loader loader(data(), options);
  for (int attempt = 0; attempt < 2; ++attempt) {
    loader.start(0);
    for (int call = 0; call < 2; ++call) {
      EXPECT_TRUE(contains(error_of([&] { loader.next(); }), "4.jpg cannot be decoded"));
    }
  }
  loader.start(0, 2);
  EXPECT_EQ(loader.next()->index, 2);
}

}  // namespace
