#include "data/shard_writer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <regex>
#include <string_view>
#include <utility>

#include <fcntl.h>

#include <c10/util/Exception.h>

#include "data/tar_archive.h"
#include "io/atomic_file.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

std::string digits(std::size_t number, int width) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%0*zu", width, number);
  return text.data();
}

/// As programs that go by the ending expect it: small letters, and .jpg for .jpeg.
std::string usual_ending(const fs::path& path) {
  auto ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".jpeg" ? ".jpg" : ending;
}

std::string_view as_text(const std::vector<std::uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

bool is_written_with_shards(const std::string& name) {
  static const std::regex shard("[0-9]{6,}\\.tar");
  return std::regex_match(name, shard) || name == kShardIndex ||
         unfinished_file(name) == kShardIndex;
}

ShardWriter::ShardWriter(fs::path folder, const EncodedImages& from, std::int64_t shard_bytes)
    : folder_(std::move(folder)), shard_bytes_(shard_bytes) {
  index_.classes = from.class_names();
  index_.has_class_names = from.has_class_names();
  begin_shard();
}

void ShardWriter::add(const EncodedImage& image, std::int64_t label) {
  constexpr std::int64_t kEnd = 2 * kTarBlock;
  const auto of_class = std::to_string(label);
  const auto bytes = static_cast<std::int64_t>(image.bytes.size());
  const auto needed = kTarBlock + in_tar_blocks(bytes) + 2 * kTarBlock;
  if (written_ > 0 && written_ + needed + kEnd > shard_bytes_) {
    end_shard();
    begin_shard();
  }
  const auto sample = digits(static_cast<std::size_t>(index_.size()) + 1, 8);
  const auto name = sample + usual_ending(image.path);
  index_.add(name, written_, bytes, label);
  index_.checksums.push_back(checksum_of_image(image.bytes));
  write_entry(name, as_text(image.bytes));
  write_entry(sample + ".cls", of_class);
}

const ShardIndex& ShardWriter::finish() {
  end_shard();
  write_shard_index(index_, folder_);
  return index_;
}

void ShardWriter::begin_shard() {
  index_.shards.push_back(digits(index_.shards.size(), 6) + kShardEnding);
  path_ = folder_ / index_.shards.back();
  file_ = open_regular_file(path_, O_WRONLY | O_CREAT | O_EXCL);
  written_ = 0;
}

void ShardWriter::end_shard() {
  write(std::string(static_cast<std::size_t>(2 * kTarBlock), '\0'));
  file_.flush(path_);
  index_.shard_bytes.push_back(written_);
  index_.shard_ends.push_back(index_.size());
}

void ShardWriter::write(std::string_view bytes) {
  file_.write(bytes, path_);
  written_ += static_cast<std::int64_t>(bytes.size());
}

void ShardWriter::write_entry(const std::string& name, std::string_view content) {
  const auto bytes = static_cast<std::int64_t>(content.size());
  const auto header = tar_header(name, bytes);
  std::string entry(header.data(), header.size());
  entry += content;
  entry.resize(static_cast<std::size_t>(kTarBlock + in_tar_blocks(bytes)), '\0');
  write(entry);
}

}  // namespace adaact
