#include <algorithm>

#include <adaact/data/datasets.h>
#include <adaact/data/image_folder.h>
#include <gtest/gtest.h>

#include "data/decode_image.h"
#include "data/image_files.h"
#include "data/record_files.h"
#include "data/webp_files.h"
#include "support/errors.h"
#include "support/libtorch.h"
#include "support/odd_files.h"
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
  EXPECT_TRUE(contains(missing, "have different classes, expected the same: only train has ant"));
  write_png(root() / "val" / "ant" / "x.png", plain_image(8, 8, {1, 1, 1}));
  const ImageFolder dataset(options(Split::Test));
  EXPECT_EQ(dataset.class_names(), (std::vector<std::string>{"ant", "cat", "dog"}));
  EXPECT_EQ(dataset.label(3), 2);
  write_png(root() / "val" / "bee" / "x.png", plain_image(8, 8, {1, 1, 1}));
  fs::remove_all(root() / "val" / "ant");
  EXPECT_TRUE(contains(error(options(Split::Test)),
                       root().string() + " have different classes, expected the same: only train "
                                         "has ant; only val has bee"));
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
  auto nowhere = options();
  nowhere.root = root() / "nowhere";
  EXPECT_TRUE(contains(error(nowhere), "there is no folder " + nowhere.root.string()));
  EXPECT_TRUE(contains(error(options()), root().string() + " has no class: expected a folder"));
  fs::create_directories(root() / "train");
  EXPECT_TRUE(contains(error(options()), (root() / "train").string() + " has no class"));
  fs::create_directories(root() / "train" / "dog");
  const auto empty =
      (root() / "train" / "dog").string() + " is an empty class: it has no file that";
  EXPECT_TRUE(contains(error(options()), empty + " ends in .jpg, .jpeg, .png or .webp"));
  write_text(root() / "train" / "dog" / "a.heic", "");
  EXPECT_TRUE(contains(error(options()), ".png or .webp, and 1 other"));
  EXPECT_TRUE(
      contains(error(options(Split::Test)),
               root().string() + " has no val/ or test/ folder: `--validation 0.1` splits"));
  fs::rename(root() / "train", root() / "val");
  EXPECT_TRUE(contains(error(options()), "there is no folder " + (root() / "train").string()));
}

TEST_F(Folder, ImagesOfNoClassBesideOtherClassesAreAnError) {
  write_classes("val");
  write_png(root() / "train" / "a.png", plain_image(2, 2, {1, 1, 1}));
  EXPECT_TRUE(contains(error(options()),
                       (root() / "train").string() + " has images, expected a folder of them"));
}

TEST_F(Folder, FoldersBelowAClassBelongToIt) {
  write_classes("train");
  write_png(root() / "train" / "cat" / "a" / "deep" / "x.PNG", plain_image(8, 8, {1, 1, 1}));
  write_png(root() / "train" / "cat" / "b" / "y.JPEG", plain_image(8, 8, {1, 1, 1}));
  write_png(root() / "train" / "cat" / ".thumbnails" / "z.png", plain_image(8, 8, {1, 1, 1}));
  const ImageFolder dataset(options());
  EXPECT_EQ(dataset.class_names(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(dataset.size(), 5);
  const auto cat = root() / "train" / "cat";
  EXPECT_EQ(dataset.path(0), cat / "a" / "deep" / "x.PNG");
  EXPECT_EQ(dataset.path(1), cat / "b" / "y.JPEG");
  EXPECT_EQ(dataset.path(2), cat / "c.png");
  EXPECT_EQ(dataset.label(2), 0);
  EXPECT_EQ(dataset.label(3), 1);
}

TEST_F(Folder, LinksAreFollowedAndLoopsAreNot) {
  write_classes("train");
  const auto cat = root() / "train" / "cat";
  write_png(root() / "elsewhere" / "x.png", plain_image(8, 8, {1, 1, 1}));
  fs::create_directory_symlink(root() / "elsewhere", cat / "link");
  fs::create_directory_symlink(root() / "elsewhere", cat / "same");
  fs::create_directory_symlink(cat, cat / "itself");
  fs::create_directory_symlink(root(), cat / "everything");
  fs::create_directory_symlink(root() / "train", cat / "all_classes");
  fs::create_symlink(cat / "nowhere.png", cat / "broken.png");
  fs::create_symlink(cat / "loop.png", cat / "loop.png");
  const ImageFolder dataset(options());
  ASSERT_EQ(dataset.size(), 4);
  EXPECT_EQ(dataset.path(0), cat / "c.png");
  EXPECT_EQ(dataset.path(1).filename(), "x.png");
  EXPECT_EQ(dataset.label(2), 1);
  EXPECT_EQ(dataset.info().remarks,
            (std::vector<std::string>{"3 files in train left out: 1 is not .jpg, .jpeg, .png or "
                                      ".webp (notes.txt), 2 are no regular files (broken.png, "
                                      "loop.png)"}));
}

TEST_F(Folder, TestTakesThePlaceOfVal) {
  write_classes("train");
  write_classes("test");
  const ImageFolder dataset(options(Split::Test));
  EXPECT_EQ(dataset.size(), 3);
  EXPECT_EQ(dataset.path(0), root() / "test" / "cat" / "c.png");
}

TEST_F(Folder, ValComesBeforeTest) {
  for (const auto* split : {"train", "val", "test"}) write_classes(split);
  fs::remove(root() / "val" / "cat" / "notes.txt");
  const ImageFolder dataset(options(Split::Test));
  EXPECT_EQ(dataset.path(0), root() / "val" / "cat" / "c.png");
  EXPECT_EQ(dataset.info().remarks,
            (std::vector<std::string>{"test/ is not used: val/ is there to evaluate on"}));
}

/// So that a model can be evaluated on pictures that came later.
TEST_F(Folder, OneFolderOfClassesCanBeEvaluatedOnButNotTrainedWith) {
  write_classes(".");
  EXPECT_EQ(ImageFolder(options(Split::Test)).size(), 3);
  EXPECT_TRUE(
      contains(error(options()),
               root().string() + " has no val/ or test/ folder: `--validation 0.1` splits"));
}

TEST_F(Folder, AClassMayBeCalledTrain) {
  for (const auto* vehicle : {"bus", "train"}) {
    for (const auto* name : {"1.png", "2.png"}) {
      write_png(root() / vehicle / name, plain_image(2, 2, {1, 1, 1}));
    }
  }
  auto splitting = options();
  splitting.validation = 0.5;
  EXPECT_EQ(ImageFolder(splitting).class_names(), (std::vector<std::string>{"bus", "train"}));
}

class SplitFolder : public Folder {
 protected:
  void write_many(const fs::path& place) const {
    for (const auto& [name, count] : {std::pair{"a", 20}, {"b", 5}, {"c", 2}}) {
      for (int i = 0; i < count; ++i) {
        write_png(place / name / (std::to_string(i) + ".png"), plain_image(2, 2, {1, 1, 1}));
      }
    }
  }
  ImageFolderOptions splitting(Split split, std::uint64_t seed = 0) const {
    auto given = options(split);
    given.validation = 0.2;
    given.seed = seed;
    return given;
  }
  static std::vector<fs::path> paths(const ImageFolderOptions& options) {
    const ImageFolder dataset(options);
    std::vector<fs::path> all;
    for (std::int64_t i = 0; i < dataset.size(); ++i) all.push_back(dataset.path(i));
    return all;
  }
};

TEST_F(SplitFolder, EachClassIsDividedByItsShare) {
  write_many(root());
  const auto train = paths(splitting(Split::Train));
  const auto test = paths(splitting(Split::Test));
  const auto of_class = [](const std::vector<fs::path>& images, const std::string& name) {
    return std::count_if(images.begin(), images.end(), [&](const fs::path& path) {
      return path.parent_path().filename() == name;
    });
  };
  EXPECT_EQ(of_class(test, "a"), 4);
  EXPECT_EQ(of_class(test, "b"), 1);
  EXPECT_EQ(of_class(test, "c"), 1) << "one at least";
  EXPECT_EQ(of_class(train, "c"), 1) << "one at least";
  auto all = train;
  all.insert(all.end(), test.begin(), test.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all.size(), 27U);
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end()) << "no image in both";
}

TEST_F(SplitFolder, TheSeedDrawsTheShare) {
  write_many(root() / "train");
  const auto test = paths(splitting(Split::Test));
  EXPECT_EQ(paths(splitting(Split::Test)), test);
  EXPECT_NE(paths(splitting(Split::Test, 1)), test);
  EXPECT_TRUE(std::is_sorted(test.begin(), test.end()));
  const auto a = root() / "train" / "a";
  EXPECT_NE((std::vector<fs::path>(test.begin(), test.begin() + 4)),
            (std::vector<fs::path>{a / "0.png", a / "1.png", a / "10.png", a / "11.png"}))
      << "not simply the first";
}

TEST_F(SplitFolder, AShareNeedsTwoImagesAndNothingElseToEvaluateOn) {
  write_many(root());
  fs::remove(root() / "c" / "1.png");
  EXPECT_TRUE(contains(error(splitting(Split::Train)),
                       (root() / "c").string() + " has 1 image, expected 2 at least"));
  write_many(root() / "train");
  write_many(root() / "test");
  EXPECT_TRUE(
      contains(error(splitting(Split::Train)),
               root().string() + " has a folder test to evaluate on: expected none beside"));
  auto wrong = splitting(Split::Train);
  wrong.validation = 1.0;
  EXPECT_TRUE(contains(error(wrong), "validation is 1, expected [0, 1)"));
}

TEST_F(SplitFolder, WhatIsLeftOutIsToldOnce) {
  write_many(root());
  write_text(root() / "b" / "photo.HEIC", "");
  write_png(root() / "cover.png", plain_image(2, 2, {1, 1, 1}));
  EXPECT_EQ(ImageFolder(splitting(Split::Train)).info().remarks,
            (std::vector<std::string>{"2 files left out: 1 is not .jpg, .jpeg, .png or .webp "
                                      "(photo.HEIC), 1 is in no class's folder (cover.png)"}));
  EXPECT_TRUE(ImageFolder(splitting(Split::Test)).info().remarks.empty());
}

TEST_F(Folder, ImagesAreDecodedOnce) {
  write_classes("train");
  const ImageFolder dataset(options());
  std::vector<std::uint8_t> first(3 * 6 * 6);
  dataset.read(2, first.data());
  fs::remove(dataset.path(2));
  const auto* kept = dataset.pixels(2);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(std::vector<std::uint8_t>(kept, kept + first.size()), first);
  auto second = first;
  std::fill(second.begin(), second.end(), std::uint8_t{0});
  dataset.read(2, second.data());
  EXPECT_EQ(second, first);
  EXPECT_EQ(dataset.pixels(1), nullptr);
}

/// Where resized crops are read they would never be asked for.
TEST_F(Folder, ACheckKeepsNoPixels) {
  write_classes("train");
  auto skipping = options();
  skipping.skip_bad_images = true;
  const ImageFolder dataset(skipping);
  for (std::int64_t i = 0; i < dataset.size(); ++i) EXPECT_EQ(dataset.pixels(i), nullptr);
}

/// A file that is nothing but a hole, of a size that no memory holds.
TEST_F(Folder, AFileLargerThanAnyImageIsNotReadIntoMemory) {
  write_classes("train");
  const auto hole = root() / "train" / "cat" / "x.jpg";
  write_text(hole, "");
  fs::resize_file(hole, std::uintmax_t{1} << 40);
  const auto expected = hole.string() + " has 1099511627776 bytes, expected at most 2147483648";
  EXPECT_TRUE(contains(error_of([&] { adaact::decode_image(hole); }), expected));
  auto skipping = options();
  skipping.skip_bad_images = true;
  const WarningCapture warnings;
  const ImageFolder dataset(skipping);
  EXPECT_EQ(dataset.skipped(), 1);
  ASSERT_EQ(warnings.messages.size(), 2U);
  EXPECT_TRUE(contains(warnings.messages[0], expected + "; the image is left out"));
}

/// Whatever a picture is, it is read, or left out with a line that names it.
TEST_F(Folder, OddPicturesAreReadAndHostileOnesAreNamed) {
  const auto odd = root() / "train" / "odd";
  write_jpeg(odd / "cmyk.jpg", plain_image(9, 9, {51, 0, 255, 128}), {JCS_CMYK, true});
  write_jpeg(odd / "grey.jpg", plain_image(9, 9, {77}), {JCS_GRAYSCALE});
  write_jpeg(odd / "progressive.jpg", plain_image(9, 9, {1, 2, 3}), {JCS_RGB, false, true});
  write_png(odd / "one_pixel.png", plain_image(1, 1, {1, 2, 3}));
  write_png(odd / "one_row.png", plain_image(1, 300, {1, 2, 3}));
  auto deep = plain_image(9, 9, {1, 1, 2, 2, 3, 3});
  deep.channels = 3;
  write_png(odd / "sixteen_bits.png", deep, {PNG_COLOR_TYPE_RGB, 16, false, {}});
  write_png(odd / "transparent.png", plain_image(9, 9, {1, 2, 3, 0}),
            {PNG_COLOR_TYPE_RGB_ALPHA, 8, false, {}});
  std::int64_t sound = 7;
#ifdef ADAACT_WITH_WEBP
  write_webp(odd / "photo.webp", plain_image(9, 9, {1, 2, 3}), /*lossless=*/false);
  ++sound;
#endif
  write_text(odd / "empty.jpg", "");
  write_jpeg(odd / "half.jpg", varied_image(40, 40, 3));
  cut(odd / "half.jpg", 0.5);
  write_png(odd / "half.png", varied_image(40, 40, 3));
  cut(odd / "half.png", 0.5);
  write_text(odd / "half.webp", "RIFF1234WEBPVP8L");
  write_text(odd / "text.png", "no picture");
  write_png(odd / "huge.png", {12'000, 12'000, 1, Bytes(std::size_t{12'000} * 1'500)},
            {PNG_COLOR_TYPE_GRAY, 1, false, {}});
  make_pipe(odd / "pipe.png");
  auto skipping = options();
  skipping.skip_bad_images = true;
  const WarningCapture warnings;
  const ImageFolder dataset(skipping);
  EXPECT_EQ(dataset.size(), sound);
  EXPECT_EQ(dataset.skipped(), 6);
  ASSERT_EQ(warnings.messages.size(), 7U);
  const std::vector<std::string> bad{"empty.jpg", "half.jpg", "half.png",
                                     "half.webp", "huge.png", "text.png"};
  for (std::size_t i = 0; i < bad.size(); ++i) {
    EXPECT_TRUE(contains(warnings.messages[i], (odd / bad[i]).string()));
    EXPECT_TRUE(contains(warnings.messages[i], "; the image is left out"));
  }
  EXPECT_EQ(dataset.info().remarks,
            (std::vector<std::string>{"7 files in train left out: 1 is no regular file (pipe.png), "
                                      "6 cannot be decoded (empty.jpg, half.jpg, half.png, …)"}));
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
  EXPECT_TRUE(contains(warnings.messages[0], "a.jpg is neither JPEG nor PNG nor WebP"));
  EXPECT_TRUE(contains(warnings.messages[1], "b.png cannot be decoded at byte"));
  EXPECT_TRUE(contains(warnings.messages[1], "the image is left out"));
  EXPECT_EQ(warnings.messages[1].find("frame #"), std::string::npos);
  EXPECT_TRUE(contains(warnings.messages[2], "2 of 4 images are left out"));
}

TEST_F(Folder, PartsAreThoseOfTheFilesThemselves) {
  const auto raw = varied_image(20, 31, 3);
  write_png(root() / "train" / "a" / "1.png", raw);
  const ImageFolder dataset(options());
  std::vector<std::uint8_t> pixels(3 * 6 * 6);
  const auto choose = [](std::int64_t height, std::int64_t width) {
    EXPECT_EQ(height, 20);
    EXPECT_EQ(width, 31);
    return adaact::ImagePart{{7, 5, 6, 6}, adaact::ResampleFilter::Bicubic, true};
  };
  dataset.read_part(0, choose, pixels.data());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const auto row = 7 + i / 6 % 6;
    const auto column = 5 + (5 - i % 6);
    EXPECT_EQ(pixels[i], raw.samples[(row * 31 + column) * 3 + i / 36]);
  }
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

TEST_F(Folder, AGiganticPictureIsLeftOutAndOneOfASinglePixelIsNot) {
  write_classes("train");
  const auto cat = root() / "train" / "cat";
  // All of it is there, one bit a pixel.
  write_png(cat / "gigantic.png", {20'000, 20'000, 1, Bytes(std::size_t{20'000} * 2'500)},
            {PNG_COLOR_TYPE_GRAY, 1, false, {}});
  write_png(cat / "pixel.png", plain_image(1, 1, {1, 2, 3}));
  auto skipping = options();
  skipping.skip_bad_images = true;
  const WarningCapture warnings;
  const ImageFolder dataset(skipping);
  EXPECT_EQ(dataset.size(), 4);
  ASSERT_EQ(warnings.messages.size(), 2U);
  EXPECT_TRUE(contains(warnings.messages[0], (cat / "gigantic.png").string() +
                                                 " has 20000x20000 pixels, expected 1 to "));
  EXPECT_EQ(dataset.path(1), cat / "pixel.png");
}

}  // namespace
