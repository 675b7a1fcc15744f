#pragma once

// Where the bytes of an image folder's images come from: files, or shards that hold many of them.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "data/decode_image.h"
#include "data/image_listing.h"

namespace adaact {

/// Size and time of a file. A file of the same name with another stamp has been changed since.
struct FileStamp {
  std::int64_t bytes = 0;
  std::int64_t modified = 0;  // nanoseconds since 1970
};

/// The images of one folder of classes as they are stored, in an order that is the same each time. All
/// methods may be called from several threads.
class EncodedImages {
 public:
  virtual ~EncodedImages() = default;
  EncodedImages(const EncodedImages&) = delete;
  EncodedImages& operator=(const EncodedImages&) = delete;

  const std::vector<std::string>& class_names() const { return class_names_; }
  const LeftOut& left_out() const { return left_out_; }
  /// False where nobody has named the classes, so that they are called by their numbers.
  virtual bool has_class_names() const { return true; }

  virtual std::int64_t size() const = 0;
  virtual std::int64_t label(std::int64_t number) const = 0;
  /// What it is called in messages.
  virtual std::filesystem::path path(std::int64_t number) const = 0;
  virtual EncodedImage read(std::int64_t number) const = 0;
  virtual FileStamp stamp(std::int64_t number) const = 0;

 protected:
  EncodedImages(std::vector<std::string> class_names, LeftOut left_out)
      : class_names_(std::move(class_names)), left_out_(std::move(left_out)) {}

 private:
  std::vector<std::string> class_names_;
  LeftOut left_out_;
};

/// Something is wrong with a shard, and with it perhaps with all of its images: unlike a bad image it is
/// never left out.
class ShardError : public c10::Error {
 public:
  using c10::Error::Error;
};

/// The images of a folder that has a folder for each class, or shards. `root` is the folder that the user
/// has named, which no link leads back to.
std::shared_ptr<const EncodedImages> open_images(const std::filesystem::path& folder,
                                                 const std::filesystem::path& root);

/// Names of the classes, as far as possible without looking at the images.
std::vector<std::string> class_names_in(const std::filesystem::path& folder);

/// Whether a folder has a folder for each class, or shards.
bool has_classes(const std::filesystem::path& folder);

}  // namespace adaact
