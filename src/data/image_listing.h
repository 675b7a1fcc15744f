#pragma once

// What lies in a folder of images: classes, images of a class, and what is neither.

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace adaact {

/// "3 files left out: 2 are not .jpg, .jpeg, .png or .webp (notes.txt, …), 1 cannot be decoded (b.png)".
class LeftOut {
 public:
  enum class Because : std::uint8_t { OfItsName, NotAFile, InNoClass, Undecodable };

  void add(Because reason, const std::filesystem::path& path);
  std::int64_t count() const;
  /// `where` comes after "files": " in train".
  std::string text(const std::string& where) const;

 private:
  struct Files {
    std::int64_t count = 0;
    std::vector<std::string> first_names;
  };
  std::array<Files, 4> files_;  // by reason
};

/// .jpg, .jpeg, .png or .webp, in capitals or not. The content decides how a file is decoded.
bool has_image_name(const std::filesystem::path& path);
inline constexpr char kImageNames[] = ".jpg, .jpeg, .png or .webp";

/// Names of the folders in a folder, sorted, without hidden ones.
std::vector<std::string> subfolders(const std::filesystem::path& folder);

/// Images in a folder and in all folders below it, sorted by path. A folder counts once, however many links
/// lead to it, and one of `not_below` not at all. Hidden files and folders are passed over; other files that
/// are no images are left out.
std::vector<std::filesystem::path> images_below(const std::filesystem::path& folder,
                                                const std::vector<std::filesystem::path>& not_below,
                                                LeftOut& left_out);

/// Counts the files beside the folders of classes.
void leave_out_files_of(const std::filesystem::path& folder, LeftOut& left_out);

/// Where the two parts of an image folder are.
struct ImageFolderParts {
  std::filesystem::path train;        // the folder of classes; empty where there is none
  std::filesystem::path evaluation;   // val/ or else test/; empty where there is neither
  std::filesystem::path unused_test;  // test/ where there is val/ too
  bool divided = false;               // false: the folder itself is one of classes
};

/// root/train, root/val and root/test, as far as they are there. A folder of such a name that has images
/// and no folders is a class, of vehicles perhaps.
ImageFolderParts find_parts(const std::filesystem::path& root);

}  // namespace adaact
