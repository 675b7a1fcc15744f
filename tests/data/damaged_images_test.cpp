// Images that were sound when the folder was opened.

#include <memory>
#include <utility>

#include <adaact/data/image_folder.h>
#include <adaact/data/loader.h>
#include <gtest/gtest.h>

#include "data/image_files.h"
#include "data/record_files.h"
#include "support/errors.h"
#include "support/libtorch.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::ImageFolder;
using adaact::ImageFolderOptions;
namespace fs = std::filesystem;

class DamagedImages : public ::testing::Test {
 protected:
  DamagedImages() {
    for (int i = 0; i < 4; ++i) {
      const auto shade = static_cast<std::uint8_t>(10 * i);
      write_png(image_of("cat", i), plain_image(8, 8, {shade, 0, 0}));
      write_png(image_of("dog", i), plain_image(8, 8, {shade, 200, 0}));
    }
  }
  fs::path image_of(const std::string& name, int number) const {
    return folder_.path() / "train" / name / (std::to_string(number) + ".png");
  }
  /// Decodes an image each time that it is asked for.
  ImageFolderOptions rereading(bool skips) const {
    ImageFolderOptions given;
    given.root = folder_.path();
    given.image_size = 6;
    given.memory_for_decoded = 0;
    given.skip_bad_images = skips;
    return given;
  }
  static std::uint8_t first_pixel(const ImageFolder& dataset, std::int64_t index) {
    std::vector<std::uint8_t> pixels(3 * 6 * 6);
    dataset.read(index, pixels.data());
    return pixels[0];
  }

  TemporaryFolder folder_;
};

TEST_F(DamagedImages, TheNextSoundImageOfTheClassTakesItsPlace) {
  const ImageFolder dataset(rereading(/*skips=*/true));
  cut(image_of("cat", 1), 0.5);
  fs::remove(image_of("cat", 2));
  cut(image_of("dog", 3), 0.5);
  const WarningCapture warnings;
  EXPECT_EQ(first_pixel(dataset, 0), 0);
  EXPECT_EQ(first_pixel(dataset, 1), 30);
  EXPECT_EQ(first_pixel(dataset, 2), 30);
  EXPECT_EQ(first_pixel(dataset, 7), 0) << "the first follows the last";
  EXPECT_EQ(dataset.size(), 8);
  ASSERT_EQ(warnings.messages.size(), 3U);
  EXPECT_EQ(warnings.messages[0].find("adaact: " + image_of("cat", 1).string()), 0U);
  EXPECT_TRUE(
      contains(warnings.messages[0], "; " + image_of("cat", 3).string() + " takes its place"));
  EXPECT_EQ(warnings.messages[1].find("adaact: " + image_of("cat", 2).string()), 0U);
}

TEST_F(DamagedImages, BatchesDoNotDependOnThreads) {
  const auto dataset = std::make_shared<ImageFolder>(rereading(/*skips=*/true));
  for (const int i : {0, 1, 3}) cut(image_of("dog", i), 0.5);
  const auto batches = [&](std::int64_t workers) {
    auto options = adaact::LoaderOptions::training();
    options.batch_size = 3;
    options.workers = workers;
    adaact::Loader loader(dataset, options);
    loader.start(0);
    std::vector<torch::Tensor> all;
    const WarningCapture warnings;
    while (const auto batch = loader.next()) all.push_back(batch->images.flatten().clone());
    return std::make_pair(torch::cat(all), warnings.messages);
  };
  const auto [alone, warned] = batches(0);
  EXPECT_EQ(warned.size(), 3U);
  for (const std::int64_t workers : {1, 4}) {
    const auto [together, warned_of] = batches(workers);
    EXPECT_TRUE(torch::equal(together, alone));
    EXPECT_EQ(warned_of, warned) << "in the order of the batches, on the thread that asks for them";
  }
}

TEST_F(DamagedImages, AClassThatHasNothingLeftIsAnError) {
  const ImageFolder dataset(rereading(/*skips=*/true));
  for (int i = 0; i < 4; ++i) cut(image_of("cat", i), 0.5);
  const WarningCapture warnings;
  const auto message = error_of([&] { first_pixel(dataset, 2); });
  EXPECT_EQ(message.find("adaact: " + image_of("cat", 2).string()), 0U);
  EXPECT_TRUE(contains(message, "; nor can any other image of its class"));
}

TEST_F(DamagedImages, WithoutTheOptionTheErrorNamesIt) {
  const ImageFolder dataset(rereading(/*skips=*/false));
  cut(image_of("cat", 1), 0.5);
  const auto message = error_of([&] { first_pixel(dataset, 1); });
  EXPECT_EQ(message.find("adaact: " + image_of("cat", 1).string()), 0U);
  EXPECT_TRUE(contains(message, "; --skip-bad-images leaves such files out"));
}

}  // namespace
