#include "data/split_folders.h"

#include <algorithm>
#include <iterator>

#include <c10/util/Exception.h>

#include "data/encoded_images.h"
#include "data/shard_index.h"
#include "io/joined.h"

namespace adaact {

namespace {

namespace fs = std::filesystem;

bool is_part(const fs::path& folder) {
  return fs::is_directory(folder) && (has_shards(folder) || !is_class_of_images(folder));
}

std::vector<std::string> missing_in(std::vector<std::string> names,
                                    std::vector<std::string> others) {
  std::sort(names.begin(), names.end());
  std::sort(others.begin(), others.end());
  std::vector<std::string> missing;
  std::set_difference(names.begin(), names.end(), others.begin(), others.end(),
                      std::back_inserter(missing));
  return missing;
}

}  // namespace

bool is_name_of_split(const std::string& name) {
  return name == "train" || name == "val" || name == "test";
}

ImageFolderParts find_parts(const fs::path& root) {
  TORCH_CHECK(fs::is_directory(root), "adaact: there is no folder ", root.string());
  const auto part = [&](const char* name) {
    const auto folder = root / name;
    return is_part(folder) ? folder : fs::path();
  };
  ImageFolderParts parts;
  if (has_shard_index(root)) {  // which says where the images are, whatever folders are called
    parts.train = root;
    return parts;
  }
  parts.train = part("train");
  parts.evaluation = part("val");
  const auto test = part("test");
  (parts.evaluation.empty() ? parts.evaluation : parts.unused_test) = test;
  parts.divided = !parts.train.empty() || !parts.evaluation.empty();
  if (!parts.divided) parts.train = root;
  TORCH_CHECK(!parts.train.empty() || !fs::is_directory(root / "train"),
              "adaact: ", (root / "train").string(),
              " has images, expected a folder of them for each class");
  return parts;
}

void check_same_classes(const ClassesOfFolder& one, const ClassesOfFolder& other) {
  std::string difference;
  const auto add = [&](const fs::path& folder, const std::vector<std::string>& only_there) {
    if (only_there.empty()) return;
    difference += (difference.empty() ? "only " : "; only ") + folder.filename().string() +
                  " has " + joined(only_there);
  };
  add(one.folder, missing_in(one.names, other.names));
  add(other.folder, missing_in(other.names, one.names));
  const auto root = one.folder.parent_path().string();
  TORCH_CHECK(difference.empty(), "adaact: the folders of ", root,
              " have different classes, expected the same: ", difference);
  TORCH_CHECK(one.names == other.names, "adaact: the folders of ", root,
              " have their classes in different orders, expected the same");
}

FolderOfSplit find_split(const ImageFolderOptions& options) {
  const auto parts = find_parts(options.root);
  const auto root = options.root.string();
  const auto& evaluation = parts.evaluation;
  if (options.validation > 0.0) {
    TORCH_CHECK(evaluation.empty(), "adaact: ", root, " has a folder ",
                evaluation.filename().string(),
                " to evaluate on: expected none beside --validation");
    return {parts.train, parts.train, true, options.split == Split::Train ? "" : " to test on", ""};
  }
  TORCH_CHECK(parts.divided || has_classes(parts.train), "adaact: ", root,
              " has no class: expected a folder of images for each, or train/ and val/ with them");
  const bool evaluates = options.split == Split::Test;
  TORCH_CHECK(
      parts.divided ? !evaluation.empty() || !evaluates : evaluates, "adaact: ", root,
      " has no val/ or test/ folder: `--validation 0.1` splits off a tenth of the images of "
      "each class to evaluate on");
  if (!parts.divided) return {parts.train, parts.train, false, "", ""};
  if (evaluates) {
    const auto name = evaluation.filename().string();
    const std::string unused =
        parts.unused_test.empty() ? "" : "test/ is not used: " + name + "/ is there to evaluate on";
    return {evaluation, parts.train.empty() ? evaluation : parts.train, false, " in " + name,
            unused};
  }
  TORCH_CHECK(!parts.train.empty(), "adaact: there is no folder ",
              (options.root / "train").string());
  return {parts.train, parts.train, false, " in train", ""};
}

}  // namespace adaact
