#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <adaact/data/dataset.h>

namespace adaact {

struct ImageFolderOptions {
  std::filesystem::path root;
  Split split = Split::Train;
  std::int64_t image_size = 224;
  std::int64_t resize_size = 0;  // the shorter side before the centre crop; 0 for image_size
  std::int64_t limit = 0;
  bool skip_bad_images = false;
};

/// root/train/<class>/*.jpg|jpeg|png and root/val/<class>/…, decoded to RGB when read. Classes are
/// the folders of root/train in the order of their names, for both splits. The content of a file, not
/// its name, decides how it is decoded.
///
/// Which images are bad must be known before the first epoch, or the same seed would not give the
/// same batches. So skip_bad_images decodes every image once when the folder is opened, on all
/// cores; without it a bad image is an error when it is read.
class ImageFolder : public Dataset {
 public:
  explicit ImageFolder(const ImageFolderOptions& options);

  std::int64_t size() const override { return static_cast<std::int64_t>(images_.size()); }
  std::int64_t label(std::int64_t index) const override;
  void read(std::int64_t index, std::uint8_t* pixels) const override;

  const std::filesystem::path& path(std::int64_t index) const;
  std::int64_t skipped() const { return skipped_; }

 private:
  struct Image {
    std::filesystem::path path;
    std::int64_t label;
  };

  void find_images(const std::filesystem::path& folder);
  void thin_out(std::int64_t limit);
  void skip_bad_images();
  const Image& image(std::int64_t index) const;

  std::vector<Image> images_;
  std::int64_t resize_size_;
  std::int64_t skipped_ = 0;
};

}  // namespace adaact
