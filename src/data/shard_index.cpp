#include "data/shard_index.h"

#include <algorithm>

#include <c10/util/Exception.h>

#include "data/decode_image.h"
#include "data/image_listing.h"
#include "data/tar_archive.h"
#include "io/error_text.h"
#include "io/joined.h"
#include "io/printable.h"
#include "io/utf8.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

constexpr char kKindOfIndex[] = "adaact.shards";
constexpr char kFormOfIndex[] = "1";
/// Is there where nobody has named the classes.
constexpr char kClassesAreNumbers[] = "adaact.classes_are_numbers";

bool is_shard(const FolderEntry& entry) {
  return entry.is_file && fs::path(entry.name).extension() == kShardEnding;
}

template <typename Numbers>
void check_count(const Numbers& numbers, std::int64_t expected, const char* name) {
  TORCH_CHECK(static_cast<std::int64_t>(numbers.size()) == expected, "adaact: '", name, "' has ",
              numbers.size(), " numbers, expected ", expected);
}

void check_shards(const ShardIndex& index) {
  const auto shards = static_cast<std::int64_t>(index.shards.size());
  check_count(index.shard_bytes, shards, "shard_bytes");
  check_count(index.shard_ends, shards, "shard_ends");
  TORCH_CHECK(shards > 0 && index.shard_ends.back() == index.size() &&
                  index.shard_ends.front() >= 0 &&
                  std::is_sorted(index.shard_ends.begin(), index.shard_ends.end()),
              "adaact: the images of ", shards, " shards do not end where the ", index.size(),
              " images do");
  for (const auto& name : index.classes) {
    TORCH_CHECK(!name.empty() && is_utf8(name), "adaact: the name of a class is not UTF-8");
  }
  for (const auto& name : index.shards) {
    TORCH_CHECK(!name.empty() && name.find('/') == std::string::npos, "adaact: the shard '", name,
                "' is not in the folder");
  }
  for (const auto bytes : index.shard_bytes) {
    TORCH_CHECK(bytes >= 0, "adaact: a shard has ", bytes, " bytes");
  }
}

/// "(a.tar, b.tar, c.tar, …)"
std::string first_of(const std::vector<std::string>& names) {
  constexpr std::size_t kNamesShown = 3;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) {
    shown.push_back(printable(names[i]));
  }
  return "(" + joined(shown) + (names.size() > kNamesShown ? ", …)" : ")");
}

/// Images of a shard that the index does not know would be missing without a word.
void check_all_are_named(const ShardIndex& index, const fs::path& folder) {
  auto named = index.shards;
  std::sort(named.begin(), named.end());
  std::vector<std::string> others;
  for (const auto& name : names_of_shards(folder)) {
    if (!std::binary_search(named.begin(), named.end(), name)) others.push_back(name);
  }
  TORCH_CHECK(others.empty(), "adaact: ", folder.string(), " has ", others.size(),
              others.size() == 1 ? " archive " : " archives ", first_of(others), " that its ",
              kShardIndex,
              " does not name, expected none; without the index all archives are read");
}

/// Throws unless every image lies in its shard.
void check_images(const ShardIndex& index) {
  const auto images = index.size();
  check_count(index.offsets, images, "offsets");
  check_count(index.bytes, images, "bytes");
  check_count(index.labels, images, "labels");
  if (!index.checksums.empty()) check_count(index.checksums, images, "checksums");
  for (std::int64_t image = 0; image < images; ++image) {
    const auto at = static_cast<std::size_t>(image);
    const auto room =
        index.shard_bytes[static_cast<std::size_t>(index.shard_of(image))] - kTarBlock;
    TORCH_CHECK(index.offsets[at] >= 0 && index.bytes[at] >= 0 && index.offsets[at] <= room &&
                    index.bytes[at] <= room - index.offsets[at],
                "adaact: image ", image, " is not within its shard");
    TORCH_CHECK(index.bytes[at] <= kMostFileBytes, "adaact: image ", image, " has ",
                index.bytes[at], " bytes, expected at most ", kMostFileBytes);
    TORCH_CHECK(has_image_name(std::string(index.names[image])), "adaact: image ", image,
                " is called '", std::string(index.names[image]), "', expected a name that ends in ",
                kImageNames);
    TORCH_CHECK(
        index.labels[at] >= 0 && index.labels[at] < static_cast<std::int64_t>(index.classes.size()),
        "adaact: image ", image, " has class ", index.labels[at], ", expected 0 to ",
        static_cast<std::int64_t>(index.classes.size()) - 1);
  }
}

}  // namespace

std::int64_t ShardIndex::shard_of(std::int64_t image) const {
  return std::upper_bound(shard_ends.begin(), shard_ends.end(), image) - shard_ends.begin();
}

void ShardIndex::add(const std::string& name, std::int64_t offset, std::int64_t image_bytes,
                     std::int64_t label) {
  names.add(name);
  offsets.push_back(offset);
  bytes.push_back(image_bytes);
  labels.push_back(label);
}

std::vector<std::string> names_of_shards(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : visible_entries(folder)) {
    if (is_shard(entry)) names.push_back(entry.name);
  }
  return names;
}

void leave_out_what_is_no_shard(const fs::path& folder, LeftOut& left_out) {
  for (const auto& entry : visible_entries(folder)) {
    const bool is_known =
        is_shard(entry) || entry.name == kShardIndex || entry.name == kClassesFile;
    if (is_known) continue;
    left_out.add(entry.is_file ? LeftOut::Because::NoShard : LeftOut::Because::NotAFile,
                 entry.name);
  }
}

bool has_shard_index(const fs::path& folder) { return fs::exists(folder / kShardIndex); }

bool has_shards(const fs::path& folder) {
  if (!fs::is_directory(folder)) return false;
  if (has_shard_index(folder)) return true;
  const auto shards = names_of_shards(folder);
  if (shards.empty()) return false;
  const auto folders = subfolders(folder);
  TORCH_CHECK(folders.empty(), "adaact: ", folder.string(), " has archives ", first_of(shards),
              " and folders ", first_of(folders), ", expected one or the other: without an ",
              kShardIndex, " nothing tells which of them hold the images");
  return true;
}

void write_shard_index(const ShardIndex& index, const fs::path& folder) {
  TensorFile file;
  file.metadata[kKindOfIndex] = kFormOfIndex;
  if (!index.has_class_names) file.metadata[kClassesAreNumbers] = "1";
  NameList::of(index.classes).put_into(file, "classes");
  NameList::of(index.shards).put_into(file, "shards");
  put_numbers(file, "shard_bytes", index.shard_bytes);
  put_numbers(file, "shard_ends", index.shard_ends);
  index.names.put_into(file, "names");
  put_numbers(file, "offsets", index.offsets);
  put_numbers(file, "bytes", index.bytes);
  put_numbers(file, "labels", index.labels);
  put_numbers(file, "checksums", index.checksums);
  file.write(folder / kShardIndex);
}

ShardIndex read_shard_index(const fs::path& folder) {
  const auto path = folder / kShardIndex;
  const auto file = TensorFile::read(path, TensorFile::Checksum::Required);
  const auto form = file.metadata.find(kKindOfIndex);
  TORCH_CHECK(form != file.metadata.end(), "adaact: ", path.string(),
              " is no index of shards as adaact pack writes it");
  TORCH_CHECK(form->second == kFormOfIndex, "adaact: ", path.string(), " has form ", form->second,
              ", expected ", kFormOfIndex);
  ShardIndex index;
  try {
    index.classes = NameList::taken_from(file, "classes").strings();
    index.has_class_names = file.metadata.count(kClassesAreNumbers) == 0;
    index.shards = NameList::taken_from(file, "shards").strings();
    index.shard_bytes = take_numbers(file, "shard_bytes");
    index.shard_ends = take_numbers(file, "shard_ends");
    index.names = NameList::taken_from(file, "names");
    index.offsets = take_numbers(file, "offsets");
    index.bytes = take_numbers(file, "bytes");
    index.labels = take_numbers(file, "labels");
    index.checksums = take_numbers(file, "checksums");
    check_shards(index);
    check_images(index);
  } catch (const c10::Error& error) {
    TORCH_CHECK(false, "adaact: ", path.string(), ": ", error_text_within_line(error));
  }
  check_all_are_named(index, folder);
  return index;
}

void check_classes_have_images(const ShardIndex& index, const fs::path& folder) {
  std::vector<bool> seen(index.classes.size(), false);
  for (const auto label : index.labels) seen[static_cast<std::size_t>(label)] = true;
  for (std::size_t label = 0; label < seen.size(); ++label) {
    TORCH_CHECK(seen[label], "adaact: ", (folder / index.classes[label]).string(),
                " is an empty class: no image in the shards is of it");
  }
}

}  // namespace adaact
