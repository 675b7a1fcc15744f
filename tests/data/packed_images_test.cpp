#include <adaact/data/packed_images.h>

#include <cstring>
#include <fstream>

#include <adaact/data/datasets.h>
#include <adaact/data/image_folder.h>
#include <adaact/data/loader.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "data/image_files.h"
#include "data/record_files.h"
#include "data/shard_index.h"
#include "data/tar_archive.h"
#include "support/errors.h"
#include "support/libtorch.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::ImageFolder;
using adaact::ImageFolderOptions;
using adaact::PackedFolder;
using adaact::PackOptions;
using adaact::Split;
namespace fs = std::filesystem;

void no_progress(const std::string& /*folder*/, std::int64_t /*images*/, std::int64_t /*of*/) {}

/// As many files as this process may have open while it is there.
class FewFiles {
 public:
  FewFiles() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few{99, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;

 private:
  rlimit before_{};
};

class PackedImages : public ::testing::Test {
 protected:
  fs::path images() const { return folder_.path() / "images"; }
  fs::path packed() const { return folder_.path() / "packed"; }

  /// Three classes of 4 to 6 images, some in folders of their own.
  void write_images(const fs::path& of_classes) const {
    int shade = 0;
    for (const auto& [name, count] : {std::pair{"ant", 4}, {"bee", 5}, {"cat", 6}}) {
      for (int i = 0; i < count; ++i) {
        shade += 3;
        const auto image = plain_image(9, 12, {static_cast<std::uint8_t>(shade), 90, 20});
        const auto place = of_classes / name / (i % 3 == 0 ? "more" : "");
        const auto number = std::to_string(i);
        i % 2 == 0 ? write_jpeg(place / (number + ".JPEG"), image)
                   : write_png(place / (number + ".png"), image);
      }
    }
  }

  PackOptions options(std::int64_t shard_bytes = 10'000) const {
    return {images(), packed(), shard_bytes, false};
  }
  std::vector<PackedFolder> pack(std::int64_t shard_bytes = 10'000) const {
    return adaact::pack_images(options(shard_bytes), no_progress);
  }
  std::string error_of_pack() const {
    return error_of([&] { pack(); });
  }
  std::string error_of_verify() const {
    return error_of([&] { adaact::verify_packed(packed(), no_progress); });
  }

  static ImageFolderOptions reading(const fs::path& root, Split split = Split::Train) {
    ImageFolderOptions options;
    options.root = root;
    options.split = split;
    options.image_size = 6;
    return options;
  }

  /// Labels and pixels of everything, in order.
  static std::vector<std::uint8_t> content_of(const ImageFolderOptions& options) {
    const ImageFolder dataset(options);
    std::vector<std::uint8_t> content;
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(dataset.shape().bytes()));
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      dataset.read(i, pixels.data());
      content.push_back(static_cast<std::uint8_t>(dataset.label(i)));
      content.insert(content.end(), pixels.begin(), pixels.end());
    }
    return content;
  }

  static void replace_byte(const fs::path& path, std::int64_t at, char byte) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.put(byte);
  }

  TemporaryFolder folder_;
};

TEST_F(PackedImages, AreReadLikeTheFolder) {
  write_images(images() / "train");
  write_images(images() / "val");
  const auto made = pack();
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0].name, "train");
  EXPECT_EQ(made[1].name, "val");
  EXPECT_EQ(made[0].classes, 3);
  EXPECT_EQ(made[0].images, 15);
  EXPECT_GT(made[0].shards, 1);
  EXPECT_EQ(adaact::dataset_in(packed()), "image-folder");
  for (const auto split : {Split::Train, Split::Test}) {
    auto of_folder = reading(images(), split);
    auto of_shards = reading(packed(), split);
    EXPECT_EQ(ImageFolder(of_shards).class_names(), ImageFolder(of_folder).class_names());
    for (const std::int64_t limit : {0, 7}) {
      of_folder.limit = of_shards.limit = limit;
      EXPECT_EQ(content_of(of_shards), content_of(of_folder));
    }
  }
  EXPECT_EQ(ImageFolder(reading(packed())).path(0),
            packed() / "train" / "000000.tar" / "00000001.png");
}

TEST_F(PackedImages, ShareOutTheSameImagesToEvaluateOn) {
  write_images(images());
  const auto made = pack();
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].name, "");
  EXPECT_EQ(adaact::dataset_in(packed()), "image-folder");
  for (const auto split : {Split::Train, Split::Test}) {
    auto of_folder = reading(images(), split);
    auto of_shards = reading(packed(), split);
    of_folder.validation = of_shards.validation = 0.3;
    EXPECT_EQ(content_of(of_shards), content_of(of_folder));
  }
  EXPECT_TRUE(contains(error_of([&] { ImageFolder{reading(packed())}; }),
                       "has no val/ or test/ folder: `--validation 0.1` splits"));
  EXPECT_EQ(ImageFolder(reading(packed(), Split::Test)).size(), 15);
}

TEST_F(PackedImages, MakeTheSameBatches) {
  write_images(images() / "train");
  pack();
  const auto batches = [](const fs::path& root, std::int64_t workers) {
    auto options = adaact::LoaderOptions::training();
    options.batch_size = 4;
    options.workers = workers;
    adaact::Loader loader(std::make_shared<ImageFolder>(reading(root)), options);
    std::vector<torch::Tensor> all;
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      for (loader.start(epoch); const auto batch = loader.next();) {
        all.push_back(batch->images.flatten().clone());
        all.push_back(batch->labels.to(torch::kFloat));
      }
    }
    return torch::cat(all);
  };
  EXPECT_TRUE(torch::equal(batches(packed(), 2), batches(images(), 0)));
}

TEST_F(PackedImages, KeepEveryByteOfAnImage) {
  write_images(images() / "train");
  pack(1'000'000);
  const auto shard = bytes_of(packed() / "train" / "000000.tar");
  for (const auto& file : fs::recursive_directory_iterator(images())) {
    if (!file.is_regular_file()) continue;
    EXPECT_NE(shard.find(bytes_of(file.path())), std::string::npos) << file.path();
  }
}

TEST_F(PackedImages, DependOnTheContentOfTheFolderAlone) {
  write_images(images() / "train");
  pack();
  const auto first = packed();
  const auto second = folder_.path() / "second";
  adaact::pack_images({images(), second, 10'000, false}, no_progress);
  std::size_t files = 0;
  for (const auto& file : fs::directory_iterator(first / "train")) {
    EXPECT_EQ(bytes_of(file.path()), bytes_of(second / "train" / file.path().filename()));
    ++files;
  }
  EXPECT_GT(files, 2U);
}

TEST_F(PackedImages, AreWhatTarUnpacks) {
  write_images(images() / "train");
  pack(1'000'000);
  const auto place = folder_.path() / "unpacked";
  fs::create_directories(place);
  const auto command =
      "tar -xf '" + (packed() / "train" / "000000.tar").string() + "' -C '" + place.string() + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(bytes_of(place / "00000001.png"), bytes_of(images() / "train" / "ant" / "1.png"));
  EXPECT_EQ(bytes_of(place / "00000001.cls"), "0");
  EXPECT_EQ(bytes_of(place / "00000015.cls"), "2");
  EXPECT_TRUE(fs::exists(place / "00000003.jpg")) << "small letters, .jpg for .JPEG";
}

TEST_F(PackedImages, LieInShardsOfTheSizeAskedFor) {
  write_images(images() / "train");
  const auto made = pack(8'000);
  std::int64_t bytes = 0;
  for (const auto& name : adaact::names_of_shards(packed() / "train")) {
    const auto size = static_cast<std::int64_t>(fs::file_size(packed() / "train" / name));
    EXPECT_LE(size, 8'000);
    EXPECT_EQ(size % adaact::kTarBlock, 0);
    bytes += size;
  }
  EXPECT_EQ(made[0].bytes, bytes);
  fs::remove_all(packed());
  EXPECT_EQ(pack(1)[0].shards, 15) << "an image each where nothing else fits";
}

TEST_F(PackedImages, AnInterruptedPackLeavesNothing) {
  write_images(images() / "train");
  EXPECT_EQ(error_of([&] {
              adaact::pack_images(options(), [](const auto&, std::int64_t image, std::int64_t) {
                if (image == 9) throw std::runtime_error("enough");
              });
            }),
            "enough");
  EXPECT_FALSE(fs::exists(packed()));
  EXPECT_FALSE(fs::exists(packed().string() + ".unfinished"));
}

TEST_F(PackedImages, WhatAKilledPackLeftIsMadeAnew) {
  write_images(images() / "train");
  const fs::path left = packed().string() + ".unfinished";
  write_text(left / "train" / "000000.tar", "half of it");
  write_text(left / "train" / "index.safetensors.tmp17.1", "half of it");
  pack();
  EXPECT_FALSE(fs::exists(left));
  EXPECT_EQ(ImageFolder(reading(packed())).size(), 15);
  fs::remove_all(packed());
  for (const auto* name : {"letter.txt", "home.tar", "train/home.tar", "train/val/000000.tar",
                           "train/index.safetensors.old", "00001.tar"}) {
    write_text(left / name, "precious");
    EXPECT_TRUE(contains(error_of_pack(), " is in the way")) << name;
    EXPECT_EQ(bytes_of(left / name), "precious") << name;
    fs::remove_all(left);
  }
}

TEST_F(PackedImages, WrongFoldersAreErrors) {
  EXPECT_TRUE(contains(error_of_pack(), "there is no folder " + images().string()));
  write_images(images() / "train");
  fs::create_directories(packed());
  EXPECT_TRUE(contains(error_of_pack(), packed().string() + " is there already; name another"));
  auto inside = options();
  inside.to = images() / "packed";
  EXPECT_TRUE(contains(error_of([&] { adaact::pack_images(inside, no_progress); }),
                       inside.to.string() + " lies in " + images().string()));
  fs::remove_all(packed());
  fs::create_directories(images() / "train" / "dog");
  EXPECT_TRUE(
      contains(error_of_pack(), (images() / "train" / "dog").string() + " is an empty class"));
  EXPECT_TRUE(contains(error_of_verify(), "there is no folder " + packed().string()));
  EXPECT_FALSE(fs::exists(packed().string() + ".unfinished"));
}

TEST_F(PackedImages, LeaveOutBadImagesOnlyWhereAskedTo) {
  write_images(images() / "train");
  write_text(images() / "train" / "ant" / "empty.jpg", "");
  write_text(images() / "train" / "ant" / "notes.txt", "");
  const auto message = error_of_pack();
  EXPECT_TRUE(contains(message, (images() / "train" / "ant" / "empty.jpg").string() +
                                    " is empty; --skip-bad-images leaves such files out"));
  write_text(images() / "train" / "bee" / "text.jpg", "no picture");
  auto skipping = options();
  skipping.skip_bad_images = true;
  const WarningCapture warnings;
  const auto made = adaact::pack_images(skipping, no_progress);
  EXPECT_EQ(made[0].images, 15);
  EXPECT_EQ(warnings.messages.size(), 2U);
  EXPECT_EQ(made[0].remarks,
            (std::vector<std::string>{"3 files in train left out: 1 is not .jpg, .jpeg, .png or "
                                      ".webp (notes.txt), 2 cannot be decoded (empty.jpg, "
                                      "text.jpg)"}));
}

TEST_F(PackedImages, SplitsWithOtherClassesAreNotPacked) {
  write_images(images() / "train");
  write_images(images() / "val");
  write_png(images() / "val" / "zebra" / "1.png", plain_image(4, 4, {1, 2, 3}));
  EXPECT_TRUE(contains(error_of([&] {
                         adaact::pack_images(options(), [](const auto&, auto, auto) {
                           throw std::runtime_error("work was begun");
                         });
                       }),
                       "have different classes, expected the same: only val has zebra"));
  EXPECT_FALSE(fs::exists(packed()));
  fs::rename(images() / "val" / "zebra", images() / "train" / "zebra");
  EXPECT_TRUE(contains(error_of_pack(), "only train has zebra"));
  fs::remove_all(images() / "train" / "zebra");
  write_images(images() / "test");
  fs::remove_all(images() / "test" / "ant");
  EXPECT_EQ(pack().size(), 3U) << "test/ is not used beside val/";
}

TEST_F(PackedImages, APictureBesideThemIsNoImageOfAClass) {
  write_images(images() / "train");
  pack();
  write_png(packed() / "train" / "preview.png", plain_image(4, 4, {1, 2, 3}));
  EXPECT_EQ(ImageFolder(reading(packed())).size(), 15);
  EXPECT_EQ(adaact::verify_packed(packed(), no_progress)[0].images, 15);
}

TEST_F(PackedImages, AFolderBesideThemIsLeftOut) {
  write_images(images() / "train");
  pack();
  write_png(packed() / "train" / "thumbs" / "1.png", plain_image(4, 4, {1, 2, 3}));
  const ImageFolder dataset(reading(packed()));
  EXPECT_EQ(dataset.size(), 15);
  EXPECT_EQ(dataset.class_names(), (std::vector<std::string>{"ant", "bee", "cat"}));
  EXPECT_EQ(dataset.info().remarks,
            (std::vector<std::string>{"1 file in train left out: 1 is no regular file (thumbs)"}));
  EXPECT_EQ(adaact::verify_packed(packed(), no_progress)[0].images, 15);
}

TEST_F(PackedImages, AFolderBesideThoseWithoutSplitsIsNoSplit) {
  write_images(images());
  pack();
  write_png(packed() / "val" / "thumbs" / "1.png", plain_image(4, 4, {1, 2, 3}));
  auto whole = reading(packed(), Split::Test);
  EXPECT_EQ(ImageFolder(whole).size(), 15);
  EXPECT_EQ(adaact::verify_packed(packed(), no_progress)[0].images, 15);
}

TEST_F(PackedImages, AFolderBesideArchivesWithoutAnIndexIsAnError) {
  write_images(images() / "train");
  pack();
  const auto train = packed() / "train";
  fs::remove(train / "index.safetensors");
  fs::create_directory(train / "thumbs");
  EXPECT_TRUE(contains(error_of([&] { ImageFolder{reading(packed())}; }),
                       train.string() + " has archives (000000.tar, 000001.tar, 000002.tar, …) "
                                        "and folders (thumbs), expected one or the other"));
}

TEST_F(PackedImages, OnlyShardsWithAnIndexAreVerified) {
  write_images(images() / "train");
  pack();
  fs::remove(packed() / "train" / "index.safetensors");
  EXPECT_EQ(ImageFolder(reading(packed())).size(), 15) << "by their headers";
  EXPECT_TRUE(contains(error_of_verify(), (packed() / "train").string() +
                                              " has no index.safetensors; --verify is for shards "
                                              "that adaact pack wrote"));
}

/// Images are checked before the first of them is packed.
TEST_F(PackedImages, AnInterruptEndsTheCheck) {
  write_images(images() / "train");
  write_text(images() / "train" / "bee" / "text.jpg", "no picture");
  auto skipping = options();
  skipping.skip_bad_images = true;
  const auto being_packed = packed().string() + ".unfinished/train";
  EXPECT_EQ(error_of([&] {
              adaact::pack_images(skipping, [&](const auto&, auto, auto) {
                throw std::runtime_error(fs::exists(being_packed) ? "too late" : "enough");
              });
            }),
            "enough");
  EXPECT_FALSE(fs::exists(packed().string() + ".unfinished"));
}

TEST_F(PackedImages, MayLieInMoreShardsThanFilesMayBeOpen) {
  for (int i = 0; i < 120; ++i) {
    const auto shade = static_cast<std::uint8_t>(2 * i);
    write_png(images() / "train" / "ant" / (std::to_string(i) + ".png"),
              plain_image(2, 2, {shade, 1, 2}));
  }
  EXPECT_EQ(pack(1)[0].shards, 120);
  const auto expected = content_of(reading(images()));
  const FewFiles few;
  EXPECT_EQ(content_of(reading(packed())), expected);
}

TEST_F(PackedImages, ATruncatedShardIsNamedAtTheStart) {
  write_images(images() / "train");
  pack();
  const auto shard = packed() / "train" / "000001.tar";
  const auto whole = fs::file_size(shard);
  fs::resize_file(shard, whole - 100);
  const auto expected = shard.string() + " is truncated: its last image ends at byte " +
                        std::to_string(whole) + ", the file at byte " + std::to_string(whole - 100);
  EXPECT_TRUE(contains(error_of([&] { ImageFolder{reading(packed())}; }), expected));
  EXPECT_TRUE(contains(error_of_verify(), expected));
  fs::resize_file(shard, whole + 512);
  EXPECT_TRUE(contains(error_of([&] { ImageFolder{reading(packed())}; }),
                       shard.string() + ": at byte " + std::to_string(whole)));
  fs::remove(shard);
  EXPECT_TRUE(contains(error_of([&] { ImageFolder{reading(packed())}; }), shard.string()));
}

/// Whether bad images are left out or not: a shard that has changed is another thing.
TEST_F(PackedImages, AChangedByteIsNamedWhenItIsRead) {
  write_images(images() / "train");
  pack(1'000'000);
  const auto shard = packed() / "train" / "000000.tar";
  const auto index = adaact::read_shard_index(packed() / "train");
  const auto second = index.offsets[1];
  for (const bool skips : {false, true}) {
    auto skipping = reading(packed());
    skipping.skip_bad_images = skips;
    const auto error = [&] { return error_of([&] { content_of(skipping); }); };
    const auto before = bytes_of(shard);
    replace_byte(shard, second + adaact::kTarBlock + 30, '\x5A');
    EXPECT_TRUE(contains(error(), shard.string() + ": at byte " +
                                      std::to_string(second + adaact::kTarBlock) +
                                      ": 00000002.jpg has changed since it was packed"));
    EXPECT_TRUE(contains(error_of_verify(), "00000002.jpg has changed since it was packed"));
    write_text(shard, before);
    replace_byte(shard, second, 'X');
    EXPECT_TRUE(contains(error(), shard.string() + ": at byte " + std::to_string(second) +
                                      ": no header of a file: its checksum is"));
    write_text(shard, before);
    EXPECT_FALSE(content_of(skipping).empty());
  }
}

TEST_F(PackedImages, AChangedClassIsFoundByVerify) {
  write_images(images() / "train");
  pack(1'000'000);
  EXPECT_EQ(adaact::verify_packed(packed(), no_progress)[0].images, 15);
  const auto shard = packed() / "train" / "000000.tar";
  const auto index = adaact::read_shard_index(packed() / "train");
  const auto of_class = index.offsets[1] - adaact::kTarBlock;  // of the first image
  replace_byte(shard, of_class, '2');
  EXPECT_TRUE(contains(error_of_verify(), shard.string() + " has changed: at byte 0 is not "
                                                           "00000001.png of class 0"));
}

TEST_F(PackedImages, AnArchiveThatTheIndexDoesNotNameIsAnError) {
  write_images(images() / "train");
  pack();
  const auto train = packed() / "train";
  fs::copy(train / "000000.tar", train / "late.tar");
  const auto expected = train.string() +
                        " has 1 archive (late.tar) that its index.safetensors does not name, "
                        "expected none";
  EXPECT_TRUE(contains(error_of([&] { ImageFolder{reading(packed())}; }), expected));
  EXPECT_TRUE(contains(error_of_verify(), expected));
  for (const auto* name : {"a.tar", "b.tar", "c.tar"}) fs::copy(train / "000000.tar", train / name);
  EXPECT_TRUE(contains(error_of([&] { ImageFolder{reading(packed())}; }),
                       "has 4 archives (a.tar, b.tar, c.tar, …) that"));
}

TEST_F(PackedImages, OtherFilesBesideThemAreCounted) {
  write_images(images() / "train");
  pack();
  const auto train = packed() / "train";
  write_text(train / "notes.txt", "of a user");
  write_text(train / "classes.txt", "ant\nbee\ncat\n");
  write_text(train / ".hidden", "");
  fs::copy(train / "000000.tar", train / "000000.tar.old");
  fs::create_symlink("nowhere", train / "lost.tar");
  EXPECT_EQ(ImageFolder(reading(packed())).info().remarks,
            (std::vector<std::string>{"3 files in train left out: 1 is no regular file (lost.tar), "
                                      "2 are no shards (000000.tar.old, notes.txt)"}));
  fs::remove(train / "index.safetensors");
  EXPECT_EQ(ImageFolder(reading(packed())).info().remarks.size(), 1U) << "of a scan as well";
}

TEST_F(PackedImages, ADamagedIndexIsNamed) {
  write_images(images() / "train");
  pack();
  const auto path = packed() / "train" / "index.safetensors";
  auto bytes = bytes_of(path);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] + 1);
  write_text(path, bytes);
  EXPECT_TRUE(contains(error_of([&] { ImageFolder{reading(packed())}; }),
                       path.string() + " is damaged: its checksum is"));
}

TEST_F(PackedImages, AnIndexThatPointsElsewhereIsRefused) {
  write_images(images() / "train");
  pack();
  const auto train = packed() / "train";
  const auto sound = adaact::read_shard_index(train);
  const auto error = [&](const std::function<void(adaact::ShardIndex&)>& change) {
    auto index = sound;
    change(index);
    adaact::write_shard_index(index, train);
    return error_of([&] { ImageFolder{reading(packed())}; });
  };
  EXPECT_TRUE(contains(error([](auto& index) { index.offsets[3] = -512; }),
                       "index.safetensors: image 3 is not within its shard"));
  EXPECT_TRUE(contains(error([](auto& index) { index.bytes[3] = std::int64_t{1} << 62; }),
                       "image 3 is not within its shard"));
  EXPECT_TRUE(contains(error([](auto& index) {
                         index.shard_bytes.back() = std::int64_t{1} << 40;
                         index.bytes.back() = (std::int64_t{1} << 31) + 1;
                       }),
                       "image 14 has 2147483649 bytes, expected at most 2147483648"));
  EXPECT_TRUE(contains(error([](auto& index) {
                         auto names = index.names.strings();
                         names[3] = "4.sh";
                         index.names = adaact::NameList::of(names);
                       }),
                       "image 3 is called '4.sh', expected a name that ends in .jpg, .jpeg, .png"));
  EXPECT_TRUE(contains(error([](auto& index) { index.labels[3] = 3; }),
                       "image 3 has class 3, expected 0 to 2"));
  EXPECT_TRUE(contains(error([](auto& index) { index.shards[0] = "../x.tar"; }),
                       "the shard '../x.tar' is not in the folder"));
  EXPECT_TRUE(
      contains(error([](auto& index) { index.shard_ends.back() -= 1; }), "do not end where the"));
  EXPECT_TRUE(contains(error([](auto& index) { index.labels.pop_back(); }),
                       "'labels' has 14 numbers, expected 15"));
}

}  // namespace
