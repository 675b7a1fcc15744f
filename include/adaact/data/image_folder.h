#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <adaact/data/dataset.h>

namespace adaact {

class DecodedImages;
class LeftOut;

struct ImageFolderOptions {
  std::filesystem::path root;
  Split split = Split::Train;
  std::int64_t image_size = 224;
  std::int64_t resize_size = 0;  // the shorter side before the centre crop; 0 for image_size
  std::int64_t limit = 0;
  bool skip_bad_images = false;
  /// The share of each class's images that Split::Test has, and Split::Train has not, where the folder has
  /// nothing else to evaluate on; 0 where it has.
  double validation = 0.0;
  std::uint64_t seed = 0;  // draws that share
};

/// root/train/<class>/… and root/val/<class>/…, or root/test/… where there is no val: JPEG, PNG and WebP
/// files, also in folders below that of their class, decoded to RGB when they are first read, and kept in
/// memory where all of them fit into a gigabyte. Classes are the folders of root/train in the order of their
/// names, for both splits. The content of a file, not its name, decides how it is decoded. With `validation`
/// images are in root/<class>/… or root/train/<class>/… and belong to one split or the other. Without, and
/// without folders for the splits, root/<class>/… may be evaluated on but not trained with.
///
/// What is left out of a folder is told by info().remarks.
///
/// Which images are bad must be known before the first epoch, or the same seed would not give the
/// same batches. So skip_bad_images decodes every image once when the folder is opened, on all
/// cores; without it a bad image is an error when it is read.
class ImageFolder : public Dataset {
 public:
  explicit ImageFolder(const ImageFolderOptions& options);
  ~ImageFolder() override;

  std::int64_t size() const override { return static_cast<std::int64_t>(images_.size()); }
  std::int64_t label(std::int64_t index) const override;
  void read(std::int64_t index, std::uint8_t* pixels) const override;
  const std::uint8_t* pixels(std::int64_t index) const override;

  const std::filesystem::path& path(std::int64_t index) const;
  std::int64_t skipped() const { return skipped_; }

 private:
  struct Image {
    std::filesystem::path path;
    std::int64_t label;
    std::size_t place;  // in decoded_
  };

  /// Returns where that was, for a remark.
  std::string find_images(const ImageFolderOptions& options, LeftOut& left_out);
  void thin_out(std::int64_t limit);
  void skip_bad_images(LeftOut& left_out);
  const Image& image(std::int64_t index) const;

  std::vector<Image> images_;
  std::int64_t resize_size_;
  std::int64_t skipped_ = 0;
  std::unique_ptr<DecodedImages> decoded_;
};

}  // namespace adaact
