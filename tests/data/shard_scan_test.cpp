// Shards that other programs have made.

#include <adaact/data/datasets.h>
#include <adaact/data/image_folder.h>
#include <gtest/gtest.h>

#include "data/checked_images.h"
#include "data/encoded_images.h"
#include "data/image_files.h"
#include "data/record_files.h"
#include "data/shard_index.h"
#include "data/tar_archive.h"
#include "support/errors.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"
#include "support/thread_ranks.h"

namespace {

using namespace adaact::testing;
using adaact::scan_shards;
using adaact::tar_header;
namespace fs = std::filesystem;

std::string as_text(const adaact::TarBlock& block) { return {block.data(), block.size()}; }

std::string entry(const std::string& name, const std::string& content) {
  auto bytes = as_text(tar_header(name, static_cast<std::int64_t>(content.size()))) + content;
  bytes.resize((bytes.size() + 511) / 512 * 512, '\0');
  return bytes;
}

const std::string kEndOfShard(1024, '\0');

class ShardScan : public ::testing::Test {
 protected:
  fs::path train() const { return folder_.path() / "train"; }
  fs::path write(const std::string& name, const std::string& bytes) const {
    write_text(train() / name, bytes);
    return train() / name;
  }
  std::string error() const {
    return error_of([&] { scan_shards(train()); });
  }
  std::string picture(std::uint8_t shade = 10) const {
    const auto path = folder_.path() / "picture.png";
    write_png(path, plain_image(4, 4, {shade, 1, 2}));
    return bytes_of(path);
  }

  TemporaryFolder folder_;
};

TEST_F(ShardScan, FindsSamplesAsWebDatasetHasThem) {
  write("a.tar", entry("c.cls", "1\n") + entry("c.seg.txt", "x") + entry("c.PNG", picture()) +
                     entry("dir.d/c.png", picture()) + entry("dir.d/c.cls", "0") +
                     entry(".hidden.png", "x") + kEndOfShard);
  const auto index = scan_shards(train());
  EXPECT_EQ(index.names.strings(), (std::vector<std::string>{"c.PNG", "dir.d/c.png"}));
  EXPECT_EQ(index.labels, (std::vector<std::int64_t>{1, 0}));
  EXPECT_TRUE(contains(index.left_out.text(""), "1 file left out: 1 is not"));
}

TEST_F(ShardScan, ReadsWhatTarHasPacked) {
  const auto samples = folder_.path() / "samples";
  const std::vector<int> labels{0, 2, 1, 1};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto name = "s" + std::to_string(i);
    write_png(samples / (name + ".png"),
              plain_image(4, 4, {static_cast<std::uint8_t>(50 * i), 0, 0}));
    write_text(samples / (name + ".cls"), std::to_string(labels[i]) + "\n");
    write_text(samples / (name + ".json"), "{}");
  }
  fs::create_directories(train());
  for (const auto* form : {"gnu", "ustar", "pax"}) {
    const auto command = "cd '" + samples.string() + "' && tar --format=" + form + " -cf '" +
                         (train() / "a.tar").string() + "' --sort=name ./";
    ASSERT_EQ(std::system(command.c_str()), 0);
    adaact::ImageFolderOptions options;
    options.root = folder_.path();
    options.image_size = 2;
    fs::remove_all(folder_.path() / "val");
    const adaact::ImageFolder dataset(options);
    ASSERT_EQ(dataset.size(), 4) << form;
    EXPECT_EQ(dataset.class_names(), (std::vector<std::string>{"0", "1", "2"}));
    std::vector<std::uint8_t> pixels(12);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      EXPECT_EQ(dataset.label(index), labels[i]);
      dataset.read(index, pixels.data());
      EXPECT_EQ(pixels[0], 50 * i);
    }
    EXPECT_EQ(dataset.info().remarks,
              (std::vector<std::string>{"4 files in train left out: 4 are not .jpg, .jpeg, .png or "
                                        ".webp (s0.json, s1.json, s2.json, …)"}));
  }
}

TEST_F(ShardScan, ClassesHaveNamesWhereAFileHasThem) {
  write("a.tar", entry("1.png", picture()) + entry("1.cls", "1") + entry("2.png", picture()) +
                     entry("2.cls", "0") + kEndOfShard);
  write_text(folder_.path() / "classes.txt", "zebra\r\nant\n");
  EXPECT_EQ(scan_shards(train()).classes, (std::vector<std::string>{"zebra", "ant"}));
  write_text(train() / "classes.txt", "tiger\nbee\n");
  EXPECT_EQ(scan_shards(train()).classes, (std::vector<std::string>{"tiger", "bee"}));
  write_text(train() / "classes.txt", "tiger\nbee\ncat\n");
  EXPECT_TRUE(contains(error(), (train() / "cat").string() + " is an empty class"));
  write_text(train() / "classes.txt", "tiger\n");
  EXPECT_TRUE(contains(error(), "have an image of class 1, expected 0 to 0, which classes.txt"));
  write_text(train() / "classes.txt", "tiger\n\nbee\n");
  EXPECT_TRUE(contains(error(), "classes.txt: line 2 is no name of a class"));
}

TEST_F(ShardScan, ClassesHaveNamesByWhateverPathTheSplitIsReached) {
  write("a.tar", entry("1.png", picture()) + entry("1.cls", "0") + kEndOfShard);
  const auto beside = folder_.path() / "classes.txt";
  const std::vector<std::string> zebra{"zebra"};
  write_text(beside, "zebra\n");
  const auto before = fs::current_path();
  fs::current_path(train());
  EXPECT_EQ(scan_shards(".").classes, zebra);
  fs::current_path(before);
  EXPECT_EQ(scan_shards(train() / "").classes, zebra);
  fs::create_directory_symlink(train(), folder_.path() / "by-a-link");
  EXPECT_EQ(scan_shards(folder_.path() / "by-a-link").classes, zebra);
  fs::create_directory(folder_.path() / "elsewhere");
  fs::rename(train(), folder_.path() / "elsewhere" / "shards");
  fs::create_directory_symlink("elsewhere/shards", train());
  EXPECT_EQ(scan_shards(train()).classes, zebra) << "beside the link that is called train";
}

TEST_F(ShardScan, NamesFromTheRootAreBelowTheShard) {
  write("a.tar", entry("/d/1.png", picture()) + entry("/d/1.cls", "0") + kEndOfShard);
  const auto images = adaact::open_images(train(), folder_.path());
  EXPECT_EQ(images->path(0), train() / "a.tar" / "d" / "1.png");
  EXPECT_EQ(images->read(0).bytes.size(), picture().size());
  on_ranks(2, [&](const auto& rank) {  // who tell each other the images by their paths
    adaact::CheckOptions options;
    options.ranks = rank;
    const auto sound = [](std::size_t /*place*/) { return std::string(); };
    EXPECT_EQ(adaact::find_defects(*images, train(), {0}, sound, options),
              (std::vector<std::string>{""}));
  });
}

TEST_F(ShardScan, AnImageLargerThanAnyIsRefused) {
  constexpr std::int64_t kTooMany = (std::int64_t{1} << 31) + 1;
  const auto path = write("a.tar", as_text(tar_header("1.png", kTooMany)));
  fs::resize_file(path, std::uintmax_t{1} << 32);
  EXPECT_TRUE(contains(error(), path.string() + ": at byte 0: 1.png has 2147483649 bytes, "
                                                "expected at most 2147483648"));
}

TEST_F(ShardScan, OrderIsThatOfTheShards) {
  write("b.tar", entry("1.png", picture()) + entry("1.cls", "0") + kEndOfShard);
  write("a.tar", entry("2.cls", "1") + entry("2.png", picture()) + entry("3.png", picture()) +
                     entry("3.cls", "0") + kEndOfShard);
  const auto index = scan_shards(train());
  EXPECT_EQ(index.shards, (std::vector<std::string>{"a.tar", "b.tar"}));
  EXPECT_EQ(index.names.strings(), (std::vector<std::string>{"2.png", "3.png", "1.png"}));
  EXPECT_EQ(index.labels, (std::vector<std::int64_t>{1, 0, 0}));
  EXPECT_EQ(index.shard_ends, (std::vector<std::int64_t>{2, 3}));
}

TEST_F(ShardScan, WhatIsWrongIsNamedWithItsByte) {
  const auto image = entry("1.png", picture());
  const auto path =
      write("a.tar", image + entry("1.cls", "0") + entry("2.png", picture()) + kEndOfShard);
  const auto place = [&](std::size_t byte) {
    return path.string() + ": at byte " + std::to_string(byte) + ": ";
  };
  EXPECT_TRUE(contains(
      error(), place(image.size() + 1024) + "2.png has no class: expected 2.cls beside it"));
  write("a.tar", image + entry("1.cls", "zero") + kEndOfShard);
  EXPECT_TRUE(contains(error(), place(image.size()) + "1.cls is no number of a class"));
  write("a.tar", image + entry("1.cls", "-1") + kEndOfShard);
  EXPECT_TRUE(contains(error(), place(image.size()) + "1.cls is no number of a class"));
  write("a.tar", image + entry("1.cls", "1") + kEndOfShard);
  EXPECT_TRUE(contains(error(), "have an image of class 1, expected 0 to 0, as many as"));
  write("a.tar", image + entry("1.jpg", picture()) + entry("1.cls", "0") + kEndOfShard);
  EXPECT_TRUE(contains(error(), place(image.size()) + "is a second image of the sample 1"));
  auto bytes = image + entry("1.cls", "0") + kEndOfShard;
  bytes[image.size() + 3] = 'x';
  write("a.tar", bytes);
  EXPECT_TRUE(contains(error(), place(image.size()) + "no header of a file: its checksum is"));
  write("a.tar", kEndOfShard);
  EXPECT_TRUE(contains(error(), "the shards in " + train().string() + " have no images"));
}

TEST_F(ShardScan, NothingMayFollowTheEnd) {
  const auto one = entry("1.png", picture()) + entry("1.cls", "0");
  const auto two = entry("2.png", picture()) + entry("2.cls", "0");
  const std::string hole(40 << 10, '\0');
  for (const auto& between : {kEndOfShard, hole}) {
    const auto path = write("a.tar", one + between + two + kEndOfShard);
    EXPECT_TRUE(contains(error(), path.string() + ": at byte " + std::to_string(one.size()) +
                                      ": the archive ends here, but there is more at byte " +
                                      std::to_string(one.size() + between.size()) +
                                      ", expected zeros to the end of the file"));
  }
  write("a.tar", one + kEndOfShard + std::string(100'000, '\0'));
  EXPECT_EQ(scan_shards(train()).size(), 1) << "tar fills its last record with zeros";
  write("a.tar", one + kEndOfShard + std::string(100'000, '\0') + "x");
  EXPECT_TRUE(contains(error(), "there is more at byte " +
                                    std::to_string(one.size() + kEndOfShard.size() + 100'000)));
}

TEST_F(ShardScan, AClassWithoutAnImageIsCounted) {
  write("a.tar", entry("1.cls", "0") + entry("2.png", picture()) + entry("2.cls", "0") +
                     entry("3.cls", "0") + kEndOfShard);
  const auto index = scan_shards(train());
  EXPECT_EQ(index.size(), 1);
  EXPECT_EQ(index.left_out.text(""),
            "2 files left out: 2 have no image beside them (1.cls, 3.cls)");
}

TEST_F(ShardScan, ATruncatedShardIsNamed) {
  const auto whole = entry("1.png", picture()) + entry("1.cls", "0") + kEndOfShard;
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{530},
                                 whole.size() - 1100, whole.size() - 1024}) {
    const auto path = write("a.tar", whole.substr(0, size));
    EXPECT_TRUE(contains(error(), path.string() + " is truncated: ")) << size;
  }
}

TEST_F(ShardScan, NamesThatAreTooLongAreRefused) {
  const auto samples = folder_.path() / "samples";
  const std::string name(120, 'n');
  write_png(samples / (name + ".png"), plain_image(4, 4, {1, 2, 3}));
  write_text(samples / (name + ".cls"), "0");
  fs::create_directories(train());
  for (const auto* form : {"gnu", "pax"}) {
    const auto command = "cd '" + samples.string() + "' && tar --format=" + form + " -cf '" +
                         (train() / "a.tar").string() + "' *";
    ASSERT_EQ(std::system(command.c_str()), 0);
    EXPECT_TRUE(contains(error(), (train() / "a.tar").string() + ": at byte 0: ")) << form;
  }
}

}  // namespace
