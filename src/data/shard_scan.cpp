#include <algorithm>
#include <charconv>
#include <sstream>
#include <string>
#include <vector>

#include <c10/util/Exception.h>

#include "data/decode_image.h"
#include "data/image_listing.h"
#include "data/shard_file.h"
#include "data/shard_index.h"
#include "data/split_folders.h"
#include "data/tar_archive.h"
#include "io/file_descriptor.h"
#include "io/utf8.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

/// What WebDataset holds together: a name up to its first dot, folders apart.
std::string sample_of(const std::string& name) {
  const auto after_folder = name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1;
  return name.substr(0, name.find('.', after_folder));
}

std::string ending_of(const std::string& name) { return name.substr(sample_of(name).size()); }

/// Goes through one shard and adds its images to the index.
class ShardScan {
 public:
  ShardScan(const fs::path& folder, const std::string& name, ShardIndex& index)
      : file_(folder / name), index_(index) {}

  void run() {
    while (next_entry()) {
    }
    finish_sample();
  }

  std::int64_t bytes() const { return file_.bytes(); }

 private:
  struct Image {
    std::string name;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
  };

  /// False at the end of the archive.
  bool next_entry() {
    TarBlock block{};
    file_.read(at_, block.data(), kTarBlock, "the end of the archive");
    if (is_end_of_tar(block)) {
      check_nothing_follows();
      return false;
    }
    const auto entry = file_.parse(block, at_);
    const auto content = at_ + kTarBlock;
    file_.check_room(content, entry.bytes, entry.name);
    take(entry, content);
    at_ = content + in_tar_blocks(entry.bytes);
    return true;
  }

  /// Images behind the end, of a second archive or behind a hole, would be lost without a word.
  void check_nothing_follows() {
    constexpr std::int64_t kAtOnce = 1 << 16;
    std::vector<char> bytes(kAtOnce);
    for (auto from = at_; from < file_.bytes(); from += kAtOnce) {
      const auto count = std::min(kAtOnce, file_.bytes() - from);
      file_.read(from, bytes.data(), count, "what follows the archive");
      const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(count);
      const auto found = std::find_if(bytes.begin(), end, [](char byte) { return byte != '\0'; });
      if (found == end) continue;
      file_.fail(at_, "the archive ends here, but there is more at byte " +
                          std::to_string(from + (found - bytes.begin())) +
                          ", expected zeros to the end of the file");
    }
  }

  void take(const TarEntry& entry, std::int64_t content) {
    if (entry.kind == TarEntry::Kind::AboutNext) return check_extension(entry, content);
    const auto base = entry.name.substr(entry.name.rfind('/') + 1);
    if (base.empty() || base.front() == '.') return;  // a folder, or hidden
    if (entry.kind == TarEntry::Kind::Other) {
      return index_.left_out.add(LeftOut::Because::NotAFile, entry.name);
    }
    if (const auto sample = sample_of(entry.name); sample != sample_) {
      finish_sample();
      sample_ = sample;
    }
    if (ending_of(entry.name) == ".cls") {
      label_ = label_in(entry, content);
    } else if (has_image_name(ending_of(entry.name).insert(0, "x"))) {
      if (!image_.name.empty()) file_.fail(at_, "is a second image of the sample " + sample_);
      check_bytes_of_image(entry);
      image_ = {entry.name, at_, entry.bytes};
    } else {
      index_.left_out.add(LeftOut::Because::OfItsName, entry.name);
    }
  }

  void check_bytes_of_image(const TarEntry& entry) const {
    if (entry.bytes <= kMostFileBytes) return;
    file_.fail(at_, entry.name + " has " + std::to_string(entry.bytes) +
                        " bytes, expected at most " + std::to_string(kMostFileBytes));
  }

  /// What stands here may concern owners and times, not names and sizes: nobody needs those for images.
  void check_extension(const TarEntry& entry, std::int64_t content) {
    constexpr std::int64_t kLongest = 1 << 16;
    if (entry.bytes > kLongest) {
      file_.fail(at_, "is an extended header of " + std::to_string(entry.bytes) +
                          " bytes, expected at most " + std::to_string(kLongest));
    }
    std::string text(static_cast<std::size_t>(entry.bytes), '\0');
    file_.read(content, text.data(), entry.bytes, entry.name);
    for (const auto* field : {" path=", " size=", " GNU.sparse"}) {
      if (text.find(field) != std::string::npos) {
        file_.fail(at_, std::string("is an extended header with") + field +
                            ", expected names of at most 255 bytes and plain files");
      }
    }
  }

  std::int64_t label_in(const TarEntry& entry, std::int64_t content) {
    constexpr std::int64_t kLongest = 20;
    std::string text(static_cast<std::size_t>(std::min(entry.bytes, kLongest)), '\0');
    file_.read(content, text.data(), static_cast<std::int64_t>(text.size()), entry.name);
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
      text.pop_back();
    }
    std::int64_t label = -1;
    const auto end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, label);
    if (error != std::errc() || stop != end || label < 0 || entry.bytes > kLongest) {
      file_.fail(at_, entry.name + " is no number of a class, expected 0, 1, …");
    }
    return label;
  }

  void finish_sample() {
    if (!image_.name.empty()) {
      if (label_ < 0) {
        file_.fail(image_.offset,
                   image_.name + " has no class: expected " + sample_ + ".cls beside it");
      }
      index_.add(image_.name, image_.offset, image_.bytes, label_);
    } else if (label_ >= 0) {
      index_.left_out.add(LeftOut::Because::WithoutImage, sample_ + ".cls");
    }
    image_ = {};
    label_ = -1;
  }

  ShardFile file_;
  ShardIndex& index_;
  std::int64_t at_ = 0;
  std::string sample_;
  Image image_;
  std::int64_t label_ = -1;
};

/// Reads the names of classes from a text file, in which each has a line of its own.
std::vector<std::string> read_class_names(const fs::path& path) {
  std::vector<std::string> names;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    TORCH_CHECK(!line.empty() && is_utf8(line), "adaact: ", path.string(), ": line ",
                names.size() + 1, " is no name of a class");
    names.push_back(line);
  }
  TORCH_CHECK(!names.empty(), "adaact: ", path.string(), " names no class");
  return names;
}

}  // namespace

std::vector<std::string> classes_in_file(const fs::path& folder) {
  std::vector<fs::path> places{folder};
  // A folder called "." may be a split, and so may one that a link leads to, or the link itself.
  for (const auto& path : {fs::absolute(folder), fs::weakly_canonical(folder)}) {
    if (is_name_of_split(path.filename().string())) places.push_back(path.parent_path());
  }
  for (const auto& place : places) {
    if (fs::exists(place / kClassesFile)) return read_class_names(place / kClassesFile);
  }
  return {};
}

ShardIndex scan_shards(const fs::path& folder) {
  ShardIndex index;
  index.shards = names_of_shards(folder);
  for (const auto& name : index.shards) {
    ShardScan scan(folder, name, index);
    scan.run();
    index.shard_bytes.push_back(scan.bytes());
    index.shard_ends.push_back(index.size());
  }
  TORCH_CHECK(index.size() > 0, "adaact: the shards in ", folder.string(), " have no images");
  const auto highest = *std::max_element(index.labels.begin(), index.labels.end());
  index.classes = classes_in_file(folder);
  const auto named = static_cast<std::int64_t>(index.classes.size());
  // Each class has an image, so that there are no more classes than images.
  const auto most = named == 0 ? index.size() : named;
  TORCH_CHECK(highest < most, "adaact: the shards in ", folder.string(), " have an image of class ",
              highest, ", expected 0 to ", most - 1,
              named == 0 ? ", as many as there are images" : ", which classes.txt names");
  index.has_class_names = named > 0;
  if (!index.has_class_names) {
    for (std::int64_t label = 0; label <= highest; ++label) {
      index.classes.push_back(std::to_string(label));
    }
  }
  check_classes_have_images(index, folder);
  return index;
}

}  // namespace adaact
