// Archives of images that somebody else has packed, with an index or without.

#include <array>
#include <cstdio>
#include <utility>

#include "data/encoded_images.h"
#include "data/image_files.h"
#include "data/shard_index.h"
#include "data/tar_archive.h"
#include "fuzz/fuzz_targets.h"
#include "fuzz/input_folder.h"
#include "fuzz/tensor_file_mutator.h"

namespace adaact::fuzz {
namespace {

std::string tiny_picture() {
  const InputFolder folder;
  testing::write_png(folder.path() / "tiny.png", testing::varied_image(2, 2, 3));
  return bytes_of_file(folder.path() / "tiny.png");
}

std::string tar_entry(const std::string& name, const std::string& content) {
  const auto size = static_cast<std::int64_t>(content.size());
  const auto header = tar_header(name, size);
  auto entry = std::string(header.data(), header.size()) + content;
  entry.resize(static_cast<std::size_t>(kTarBlock + in_tar_blocks(size)), '\0');
  return entry;
}

const std::string& end_of_archive() {
  static const std::string zeros(static_cast<std::size_t>(2 * kTarBlock), '\0');
  return zeros;
}

/// A shard of two images of two classes.
const std::string& sound_shard() {
  static const auto shard = [] {
    const auto picture = tiny_picture();
    return tar_entry("1.png", picture) + tar_entry("1.cls", "1") + tar_entry("2.cls", "0\n") +
           tar_entry("2.png", picture) + end_of_archive();
  }();
  return shard;
}

/// Bytes alone: what is in pictures is another target's.
void read_all(const InputFolder& folder) {
  const auto images = open_images(folder.path(), folder.path());
  const auto classes = static_cast<std::int64_t>(images->class_names().size());
  for (std::int64_t i = 0; i < images->size(); ++i) {
    require(images->label(i) >= 0 && images->label(i) < classes, "a label of no class");
    images->read(i);
  }
}

void read_shard(const std::string& bytes) {
  const InputFolder folder;
  folder.write("000000.tar", bytes);
  read_all(folder);
}

/// Of every header the checksum put right, so that what else it says is read.
std::string with_right_checksums(std::string bytes) {
  constexpr std::size_t kBlock = kTarBlock;
  constexpr std::size_t kChecksumAt = 148;
  for (std::size_t at = 0; at + kBlock <= bytes.size(); at += kBlock) {
    if (bytes.compare(at + 257, 5, "ustar") != 0) continue;
    bytes.replace(at + kChecksumAt, 8, "        ");
    unsigned sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(bytes[at + i]);
    std::array<char, 8> digits{};
    std::snprintf(digits.data(), digits.size(), "%06o", sum);
    bytes.replace(at + kChecksumAt, 7, digits.data(), 7);
  }
  return bytes;
}

std::string mutate_shard(std::string bytes, std::size_t most, Random& random) {
  bytes = mutate_bytes(std::move(bytes), most);
  return once_in(4, random) ? bytes : with_right_checksums(std::move(bytes));
}

void read_index(const std::string& bytes) {
  const InputFolder folder;
  folder.write("000000.tar", sound_shard());
  folder.write(kShardIndex, bytes);
  read_all(folder);
}

std::vector<Seed> shard_seeds() {
  return {{"two_classes", sound_shard()},
          {"other_files", tar_entry("a/1.jpg", "no picture") + tar_entry("a/1.cls", "0") +
                              tar_entry("a/1.json", "{}") + tar_entry(".hidden", "") +
                              end_of_archive()}};
}

std::vector<Seed> index_seeds() {
  const InputFolder folder;
  folder.write("000000.tar", sound_shard());
  auto index = scan_shards(folder.path());
  write_shard_index(index, folder.path());
  const auto without = bytes_of_file(folder.path() / kShardIndex);
  const auto picture = tiny_picture();
  index.checksums.assign(2, checksum_of_image({picture.begin(), picture.end()}));
  write_shard_index(index, folder.path());
  return {{"without_checksums", without},
          {"with_checksums", bytes_of_file(folder.path() / kShardIndex)}};
}

}  // namespace

FuzzTarget shard_target() { return {"shard", read_shard, shard_seeds, mutate_shard}; }
FuzzTarget shard_index_target() {
  return {"shard_index", read_index, index_seeds, mutate_tensor_file};
}

}  // namespace adaact::fuzz
