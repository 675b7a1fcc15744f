#pragma once

// What lies in a folder of images: classes, images of a class, and what is neither.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/left_out.h"
#include "data/name_list.h"

namespace adaact {

/// .jpg, .jpeg, .png or .webp, in capitals or not. The content decides how a file is decoded.
bool has_image_name(const std::filesystem::path& path);

struct FolderEntry {
  std::string name;
  bool is_folder = false;
  bool is_file = false;
};

/// What a folder holds, sorted by name, without what is hidden.
std::vector<FolderEntry> visible_entries(const std::filesystem::path& folder);

/// Names of the folders in a folder, sorted, without hidden ones.
std::vector<std::string> subfolders(const std::filesystem::path& folder);

/// Whether a folder has images and no folders.
bool is_class_of_images(const std::filesystem::path& folder);

/// A folder as it was when its entries were read.
struct ListedFolder {
  std::filesystem::path path;
  std::int64_t number = 0;   // of its inode
  std::int64_t changed = 0;  // when a name came, went or changed, in nanoseconds since 1970
};

/// A folder that can be read; an error where it is none.
ListedFolder look_at_folder(const std::filesystem::path& folder);

/// A folder of classes, each a folder of images.
struct FolderListing {
  std::vector<std::string> classes;  // sorted
  NameList images;                   // below the folder of their class, sorted by class and path
  std::vector<std::int64_t> ends;    // of the images of each class
  LeftOut left_out;
  std::vector<ListedFolder> folders;  // all that were read

  std::int64_t label(std::int64_t image) const;
};

/// Images in the folders of classes and in all folders below them. For a class a folder counts once, however
/// many links lead to it, and this folder or `root` not at all. Hidden files and folders are passed over; other
/// files that are no images are left out. A class without images is an error.
FolderListing list_folder(const std::filesystem::path& folder, const std::filesystem::path& root);

}  // namespace adaact
