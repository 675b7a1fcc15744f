#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <adaact/data/dataset.h>
#include <adaact/ranks/communicator.h>

namespace adaact {

class DecodedImages;
class EncodedImages;
class LeftOut;
struct EncodedImage;
struct FolderOfSplit;

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
  /// Memory for images that were decoded; where not all of them fit, none are kept.
  std::int64_t memory_for_decoded = std::int64_t{1} << 30;
  /// Who opens the folder together. With skip_bad_images each rank decodes a part of the images, and takes the others'
  /// word for the rest: where ranks have copies of a folder, the copies are the same.
  std::shared_ptr<Communicator> ranks = single_process();
};

/// root/train/<class>/… and root/val/<class>/…, or root/test/… where there is no val: JPEG, PNG and WebP
/// files, also in folders below that of their class, decoded to RGB when they are first read, and kept in
/// memory where all of them fit. Classes are the folders of root/train in the order of their
/// names, for both splits. The content of a file, not its name, decides how it is decoded. With `validation`
/// images are in root/<class>/… or root/train/<class>/… and belong to one split or the other. Without, and
/// without folders for the splits, root/<class>/… may be evaluated on but not trained with.
///
/// In the place of folders of classes there may be shards, as pack_images() or WebDataset write them.
///
/// What is left out of a folder is told by info().remarks.
///
/// Which images are bad must be known before the first epoch, or the same seed would not give the
/// same batches. So skip_bad_images decodes every image once when the folder is opened, on all
/// cores; without it a bad image is an error when it is read. Of 10,000 images and more both the listing and the
/// checks are remembered in the user's cache. An image that becomes bad after it was checked is replaced, with a
/// warning, by the next of its class that can be decoded.
class ImageFolder : public Dataset {
 public:
  explicit ImageFolder(const ImageFolderOptions& options);
  ~ImageFolder() override;

  /// False for shards in which classes have numbers alone, by which class_names() calls them then.
  bool has_class_names() const;
  std::int64_t size() const override { return static_cast<std::int64_t>(images_.size()); }
  std::int64_t label(std::int64_t index) const override;
  void read(std::int64_t index, std::uint8_t* pixels) const override;
  /// Of the file itself, of which no more is decoded than the part, as far as its format allows.
  void read_part(std::int64_t index, const ChoosePart& choose, std::uint8_t* pixels) const override;
  std::vector<std::uint8_t> encoded(std::int64_t index) const override;
  const std::uint8_t* pixels(std::int64_t index) const override;

  /// The file; of an image in a shard the shard and its name there.
  std::filesystem::path path(std::int64_t index) const;
  std::int64_t skipped() const { return skipped_; }

 private:
  using Decode = std::function<void(const EncodedImage& image)>;

  ImageFolder(const ImageFolderOptions& options, const FolderOfSplit& split);
  ImageFolder(const ImageFolderOptions& options, const FolderOfSplit& split,
              std::shared_ptr<const EncodedImages> encoded);

  void choose_images(const ImageFolderOptions& options, const FolderOfSplit& split);
  void thin_out(std::int64_t limit);
  void skip_bad_images(const std::filesystem::path& folder,
                       const std::shared_ptr<Communicator>& ranks, LeftOut& left_out);
  /// The number of an image of this split among all in encoded_.
  std::int64_t number(std::int64_t index) const;
  std::int64_t next_of_class(std::int64_t index) const;

  void decode_to_crop(const EncodedImage& file, std::uint8_t* pixels) const;
  /// What keeps an image from being decoded; empty where nothing does.
  std::string defect_of(std::int64_t number, const Decode& decode) const;
  /// Every way to the pixels of an image: hands its bytes to `decode`, or those of the one that replaces it.
  void decode(std::int64_t index, const Decode& decode) const;

  std::shared_ptr<const EncodedImages> encoded_;
  std::vector<std::int64_t> images_;  // their numbers in encoded_
  std::int64_t resize_size_;
  std::int64_t skipped_ = 0;
  bool replaces_bad_images_ = false;
  std::unique_ptr<DecodedImages> decoded_;
};

}  // namespace adaact
