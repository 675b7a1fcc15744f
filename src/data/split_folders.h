#pragma once

// Where the images of a split are.

#include <filesystem>
#include <string>
#include <vector>

#include <adaact/data/image_folder.h>

namespace adaact {

/// train, val or test
bool is_name_of_split(const std::string& name);

/// Where the two parts of an image folder are.
struct ImageFolderParts {
  std::filesystem::path train;        // the folder of classes; empty where there is none
  std::filesystem::path evaluation;   // val/ or else test/; empty where there is neither
  std::filesystem::path unused_test;  // test/ where there is val/ too
  bool divided = false;               // false: the folder itself is one of classes
};

/// root/train, root/val and root/test, as far as they are there. A folder of such a name that has images
/// and neither folders nor shards is a class, of vehicles perhaps. Where the root has an index of shards, it is the
/// folder of classes, and no folder in it counts.
ImageFolderParts find_parts(const std::filesystem::path& root);

struct FolderOfSplit {
  std::filesystem::path folder;      // of classes
  std::filesystem::path of_classes;  // which of them there are
  bool shared = false;               // with the other split
  std::string where;                 // in remarks, after "files"
  std::string remark;                // of what is there and not used
};

struct ClassesOfFolder {
  std::filesystem::path folder;
  std::vector<std::string> names;
};

/// An error that tells the difference where the folders of two splits do not have the same classes.
void check_same_classes(const ClassesOfFolder& one, const ClassesOfFolder& other);

FolderOfSplit find_split(const ImageFolderOptions& options);

}  // namespace adaact
