#include <adaact/data/packed_images.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>

#include <c10/util/Exception.h>

#include "data/checked_images.h"
#include "data/decode_image.h"
#include "data/encoded_images.h"
#include "data/shard_images.h"
#include "data/shard_index.h"
#include "data/shard_writer.h"
#include "data/split_folders.h"
#include "io/folder_lock.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

/// The folders of classes in an image folder, by the names that they have in it.
std::vector<std::string> folders_of_classes(const fs::path& root) {
  const auto parts = find_parts(root);
  if (!parts.divided) return {""};
  std::vector<std::string> names;
  for (const auto& folder : {parts.train, parts.evaluation, parts.unused_test}) {
    if (!folder.empty()) names.push_back(folder.filename().string());
  }
  return names;
}

fs::path below(const fs::path& root, const std::string& name) {
  return name.empty() ? root : root / name;
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  const auto inner = fs::weakly_canonical(fs::absolute(path));
  const auto outer = fs::canonical(folder);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// Where shards are written until all are there. A folder that an earlier pack left, when it was killed, is
/// made anew.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(const fs::path& target)
      : target_(target.has_filename() ? target : target.parent_path()),  // it may end in '/'
        path_(target_.string() + ".unfinished") {
    fs::create_directories(path_);
    lock_ = lock_folder(path_, "packing into");
    check_that_it_is_left_over();
    empty();
  }
  ~UnfinishedFolder() {
    std::error_code ignored;  // what cannot be removed has a name that says what it is
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  const fs::path& path() const { return path_; }

  void finish() {
    std::error_code error;
    fs::rename(path_, target_, error);  // replaces an empty folder, nothing else
    TORCH_CHECK(!error, "adaact: ", path_.string(), " cannot be renamed to ", target_.string(),
                ": ", error.message());
    path_.clear();
  }

 private:
  void check_that_it_is_left_over() const {
    const fs::recursive_directory_iterator begin(path_);
    for (auto at = begin; at != fs::end(begin); ++at) {
      const auto name = at->path().filename().string();
      const auto type = at->symlink_status().type();
      const bool ours = type == fs::file_type::directory
                            ? at.depth() == 0 && is_name_of_split(name)
                            : type == fs::file_type::regular && is_written_with_shards(name);
      TORCH_CHECK(ours, "adaact: ", at->path().string(),
                  " is in the way: only what an interrupted pack has left may be there");
    }
  }
  void empty() const {
    for (const auto& entry : fs::directory_iterator(path_)) fs::remove_all(entry.path());
  }

  fs::path target_;
  fs::path path_;
  FileDescriptor lock_;
};

PackedFolder summary_of(const std::string& name, const ShardIndex& index) {
  PackedFolder packed;
  packed.name = name;
  packed.classes = static_cast<std::int64_t>(index.classes.size());
  packed.images = index.size();
  packed.shards = static_cast<std::int64_t>(index.shards.size());
  for (const auto bytes : index.shard_bytes) packed.bytes += bytes;
  return packed;
}

struct FolderToPack {
  std::string name;  // "train"; empty where there are no splits
  fs::path from;
  std::shared_ptr<const EncodedImages> images;
};

FolderToPack open_to_pack(const fs::path& root, const std::string& name) {
  FolderToPack folder{name, below(root, name), nullptr};
  folder.images = open_images(folder.from, root);
  TORCH_CHECK(!folder.images->class_names().empty(), "adaact: ", folder.from.string(),
              " has no class: expected a folder of images for each");
  return folder;
}

/// What training would refuse is not packed. A test/ beside val/ is not used, and may have other classes.
void check_splits(const std::vector<FolderToPack>& folders) {
  if (folders.size() < 2 || folders[0].name != "train") return;
  check_same_classes({folders[0].from, folders[0].images->class_names()},
                     {folders[1].from, folders[1].images->class_names()});
}

std::vector<std::string> defects_of_all(const FolderToPack& folder, const PackProgress& progress) {
  const auto& images = *folder.images;
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < images.size(); ++i) numbers.push_back(i);
  const auto defect_of = [&](std::size_t i) {
    const auto number = static_cast<std::int64_t>(i);
    return defect_in(images.path(number), [&] { decode_image(images.read(number)); });
  };
  CheckOptions options;
  options.progress = [&](std::size_t i) {
    progress(folder.name, static_cast<std::int64_t>(i), images.size());
  };
  return find_defects(images, folder.from, numbers, defect_of, options);
}

EncodedImage read_to_pack(const EncodedImages& images, std::int64_t number) {
  EncodedImage image;
  const auto defect = defect_in(images.path(number), [&] { image = images.read(number); });
  TORCH_CHECK(defect.empty(), defect, "; --skip-bad-images leaves such files out");
  return image;
}

PackedFolder pack_folder(const PackOptions& options, const FolderToPack& folder, const fs::path& to,
                         const PackProgress& progress) {
  const auto& [name, from, images] = folder;
  auto left_out = images->left_out();
  const auto defects =
      options.skip_bad_images ? defects_of_all(folder, progress) : std::vector<std::string>();
  fs::create_directories(to);
  ShardWriter writer(to, *images, options.shard_bytes);
  for (std::int64_t number = 0; number < images->size(); ++number) {
    progress(name, number, images->size());
    if (options.skip_bad_images && !defects[static_cast<std::size_t>(number)].empty()) {
      TORCH_WARN(defects[static_cast<std::size_t>(number)], "; the image is left out");
      left_out.add(LeftOut::Because::Undecodable, images->path(number));
      continue;
    }
    writer.add(read_to_pack(*images, number), images->label(number));
  }
  const auto& index = writer.finish();
  check_classes_have_images(index, from);
  progress(name, images->size(), images->size());
  auto packed = summary_of(name, index);
  if (left_out.count() > 0) {
    packed.remarks.push_back(left_out.text(name.empty() ? "" : " in " + name));
  }
  return packed;
}

/// Holds what the headers in the shards say against the index.
void check_headers(const ShardIndex& index, const fs::path& folder) {
  const auto found = scan_shards(folder);
  TORCH_CHECK(found.shards == index.shards, "adaact: ", folder.string(), " has ",
              found.shards.size(), " shards, expected the ", index.shards.size(),
              " that its index names");
  const auto images = std::min(found.size(), index.size());
  for (std::int64_t i = 0; i < images; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool equal = found.names[i] == index.names[i] && found.offsets[at] == index.offsets[at] &&
                       found.bytes[at] == index.bytes[at] && found.labels[at] == index.labels[at];
    const auto shard = index.shards[static_cast<std::size_t>(index.shard_of(i))];
    TORCH_CHECK(equal, "adaact: ", (folder / shard).string(), " has changed: at byte ",
                index.offsets[at], " is not ", std::string(index.names[i]), " of class ",
                index.labels[at], ", as the index has it");
  }
  TORCH_CHECK(found.size() == index.size(), "adaact: the shards in ", folder.string(), " have ",
              found.size(), " images, expected ", index.size());
}

}  // namespace

std::vector<PackedFolder> pack_images(const PackOptions& options, const PackProgress& progress) {
  TORCH_CHECK_VALUE(options.shard_bytes > 0, "shard_bytes is ", options.shard_bytes,
                    ", expected > 0");
  TORCH_CHECK(!fs::exists(options.to), "adaact: ", options.to.string(),
              " is there already; name another folder");
  const auto names = folders_of_classes(options.from);
  TORCH_CHECK(!lies_in(options.to, options.from), "adaact: ", options.to.string(), " lies in ",
              options.from.string(), ", where it would be a class; name another folder");
  std::vector<FolderToPack> folders;
  folders.reserve(names.size());
  for (const auto& name : names) folders.push_back(open_to_pack(options.from, name));
  check_splits(folders);
  UnfinishedFolder unfinished(options.to);
  std::vector<PackedFolder> packed;
  packed.reserve(folders.size());
  for (const auto& folder : folders) {
    packed.push_back(pack_folder(options, folder, below(unfinished.path(), folder.name), progress));
  }
  unfinished.finish();
  return packed;
}

std::vector<PackedFolder> verify_packed(const fs::path& folder, const PackProgress& progress) {
  std::vector<PackedFolder> found;
  for (const auto& name : folders_of_classes(folder)) {
    const auto of_classes = below(folder, name);
    TORCH_CHECK(has_shards(of_classes), "adaact: ", of_classes.string(), " has no shards");
    TORCH_CHECK(has_shard_index(of_classes), "adaact: ", of_classes.string(), " has no ",
                kShardIndex, "; --verify is for shards that adaact pack wrote");
    const auto index = read_shard_index(of_classes);
    const ShardImages images(of_classes, index);  // which looks at their sizes
    check_headers(index, of_classes);
    for (std::int64_t number = 0; number < images.size(); ++number) {
      progress(name, number, images.size());
      images.read(number);
    }
    progress(name, images.size(), images.size());
    found.push_back(summary_of(name, index));
  }
  return found;
}

}  // namespace adaact
