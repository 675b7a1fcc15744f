#include <algorithm>

#include <adaact/data/datasets.h>
#include <adaact/data/image_folder.h>
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
using adaact::Split;
namespace fs = std::filesystem;

class Folder : public ::testing::Test {
 protected:
  void write_classes(const std::string& split) const {
    const auto place = root() / split;
    write_png(place / "dog" / "b.png", plain_image(10, 16, {10, 20, 30}));
    write_jpeg(place / "dog" / "a.JPEG", plain_image(16, 10, {200, 0, 0}));
    write_png(place / "cat" / "c.png", plain_image(8, 8, {0, 200, 0}));
    write_png(place / "cat" / ".hidden.png", plain_image(8, 8, {0, 0, 0}));
    write_text(place / "cat" / "notes.txt", "not an image");
    write_text(place / ".git" / "x.png", "");
  }
  fs::path root() const { return folder.path(); }
  ImageFolderOptions options(Split split = Split::Train) const {
    ImageFolderOptions options;
    options.root = root();
    options.split = split;
    options.image_size = 6;
    return options;
  }
  static std::string error(const ImageFolderOptions& options) {
    return error_of([&] { ImageFolder{options}; });
  }

  TemporaryFolder folder;
};

TEST_F(Folder, ClassesAndImagesAreSorted) {
  write_classes("train");
  const ImageFolder dataset(options());
  EXPECT_EQ(dataset.class_names(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(dataset.size(), 3);
  EXPECT_EQ(dataset.path(0).filename(), "c.png");
  EXPECT_EQ(dataset.path(1).filename(), "a.JPEG");
  EXPECT_EQ(dataset.path(2).filename(), "b.png");
  EXPECT_EQ(dataset.label(0), 0);
  EXPECT_EQ(dataset.label(2), 1);
  EXPECT_EQ(dataset.skipped(), 0);
  EXPECT_EQ(dataset.pixels(0), nullptr);
}

TEST_F(Folder, ImagesArePlanesOfTheTargetSize) {
  write_classes("train");
  const ImageFolder dataset(options());
  std::vector<std::uint8_t> pixels(3 * 6 * 6);
  dataset.read(2, pixels.data());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    EXPECT_EQ(pixels[i], 10 * (i / 36 + 1));
  }
}

TEST_F(Folder, ALargerResizeLeavesOnlyTheMiddle) {
  auto framed = plain_image(12, 12, {9, 9, 9});
  for (int y = 3; y < 9; ++y) {
    std::fill_n(framed.samples.begin() + (y * 12 + 3) * 3, 6 * 3, std::uint8_t{200});
  }
  write_png(root() / "train" / "a" / "x.png", framed);
  auto resized = options();
  resized.resize_size = 12;
  std::vector<std::uint8_t> pixels(3 * 6 * 6);
  ImageFolder(resized).read(0, pixels.data());
  EXPECT_EQ(pixels, std::vector<std::uint8_t>(pixels.size(), 200));
}

TEST_F(Folder, LabelsOfValFollowTrain) {
  write_classes("train");
  write_png(root() / "train" / "ant" / "x.png", plain_image(8, 8, {1, 1, 1}));
  write_classes("val");
  const auto missing = error(options(Split::Test));
  EXPECT_TRUE(contains(missing, (root() / "val" / "ant").string() + " is an empty class"));
  write_png(root() / "val" / "ant" / "x.png", plain_image(8, 8, {1, 1, 1}));
  const ImageFolder dataset(options(Split::Test));
  EXPECT_EQ(dataset.class_names(), (std::vector<std::string>{"ant", "cat", "dog"}));
  EXPECT_EQ(dataset.label(3), 2);
  write_png(root() / "val" / "bee" / "x.png", plain_image(8, 8, {1, 1, 1}));
  EXPECT_TRUE(contains(error(options(Split::Test)),
                       (root() / "val" / "bee").string() + " is a class that the folder train"));
}

TEST_F(Folder, ValAloneIsEnoughToEvaluate) {
  write_classes("val");
  EXPECT_EQ(ImageFolder(options(Split::Test)).size(), 3);
}

TEST_F(Folder, ALimitTakesFromAllClasses) {
  for (int i = 0; i < 10; ++i) {
    const auto name = std::to_string(i) + ".png";
    write_png(root() / "train" / "a" / name, plain_image(2, 2, {1, 1, 1}));
    write_png(root() / "train" / "b" / name, plain_image(2, 2, {1, 1, 1}));
  }
  auto limited = options();
  limited.limit = 4;
  const ImageFolder dataset(limited);
  ASSERT_EQ(dataset.size(), 4);
  EXPECT_EQ(dataset.label(1), 0);
  EXPECT_EQ(dataset.label(2), 1);
}

TEST_F(Folder, WrongFoldersAreErrors) {
  EXPECT_TRUE(contains(error(options()), "there is no folder " + (root() / "train").string()));
  fs::create_directories(root() / "train");
  EXPECT_TRUE(contains(error(options()), (root() / "train").string() + " has no class"));
  fs::create_directories(root() / "train" / "dog");
  EXPECT_TRUE(contains(error(options()),
                       (root() / "train" / "dog").string() + " is an empty class: it has no .jpg"));
}

TEST_F(Folder, BadOptionsSayWhatWasExpected) {
  auto bad = options();
  bad.image_size = 0;
  EXPECT_TRUE(contains(error(bad), "image_size is 0, expected > 0"));
  bad = options();
  bad.resize_size = 5;
  EXPECT_TRUE(contains(error(bad), "resize_size is 5, expected 0 or >= 6"));
  bad = options();
  bad.limit = -1;
  EXPECT_TRUE(contains(error(bad), "limit is -1"));
}

TEST_F(Folder, ABadImageIsAnErrorWhenRead) {
  write_classes("train");
  cut(root() / "train" / "dog" / "b.png", 0.5);
  const ImageFolder dataset(options());
  std::vector<std::uint8_t> pixels(3 * 6 * 6);
  EXPECT_TRUE(contains(error_of([&] { dataset.read(2, pixels.data()); }), "b.png cannot be"));
}

TEST_F(Folder, BadImagesCanBeSkipped) {
  write_classes("train");
  cut(root() / "train" / "dog" / "b.png", 0.5);
  write_text(root() / "train" / "cat" / "a.jpg", "text");
  adaact::DatasetOptions skipping;
  skipping.data_dir = root();
  skipping.image_size = 6;
  skipping.skip_bad_images = true;
  const WarningCapture warnings;
  const auto dataset = adaact::open_dataset("image-folder", skipping);
  EXPECT_EQ(dataset->size(), 2);
  EXPECT_EQ(dynamic_cast<const ImageFolder&>(*dataset).skipped(), 2);
  ASSERT_EQ(warnings.messages.size(), 3U);
  EXPECT_TRUE(contains(warnings.messages[0], "a.jpg is neither JPEG nor PNG"));
  EXPECT_TRUE(contains(warnings.messages[1], "b.png cannot be decoded at byte"));
  EXPECT_TRUE(contains(warnings.messages[1], "the image is left out"));
  EXPECT_EQ(warnings.messages[1].find("frame #"), std::string::npos);
  EXPECT_TRUE(contains(warnings.messages[2], "2 of 4 images are left out"));
}

TEST_F(Folder, ANameThatIsNotUtf8IsAnError) {
  write_classes("train");
  std::filesystem::create_directories(root() / "train" / "caf\xe9");
  EXPECT_TRUE(contains(error(options()), "is not UTF-8"));
}

TEST_F(Folder, AClassOfBadImagesIsAnError) {
  write_classes("train");
  cut(root() / "train" / "cat" / "c.png", 0.5);
  auto skipping = options();
  skipping.skip_bad_images = true;
  const WarningCapture warnings;
  EXPECT_TRUE(contains(error(skipping), (root() / "train" / "cat").string() +
                                            " is an empty class: none of its images"));
}

}  // namespace
