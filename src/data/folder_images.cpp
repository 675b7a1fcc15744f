#include "data/folder_images.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/stat.h>

#include <c10/util/Exception.h>

#include "data/file_times.h"
#include "data/remembered_listing.h"
#include "io/file_descriptor.h"

namespace adaact {

namespace fs = std::filesystem;

FolderImages::FolderImages(const fs::path& folder, const fs::path& root)
    : FolderImages(folder, remembered_listing(folder, root)) {}

FolderImages::FolderImages(fs::path folder, FolderListing listing)
    : EncodedImages(listing.classes, listing.left_out),
      folder_(std::move(folder)),
      listing_(std::move(listing)) {}

fs::path FolderImages::path(std::int64_t number) const {
  return folder_ / class_names()[static_cast<std::size_t>(label(number))] / listing_.images[number];
}

EncodedImage FolderImages::read(std::int64_t number) const {
  EncodedImage image{path(number), {}};
  const auto file = open_regular_file(image.path);
  image.bytes.resize(size_of_file(file, image.path, kMostFileBytes));
  auto* bytes = reinterpret_cast<char*>(image.bytes.data());
  image.bytes.resize(file.read(bytes, image.bytes.size(), image.path));
  TORCH_CHECK(!image.bytes.empty(), "adaact: ", image.path.string(), " is empty");
  return image;
}

FileStamp FolderImages::stamp(std::int64_t number) const {
  const auto file = path(number);
  struct stat status {};
  TORCH_CHECK(::stat(file.c_str(), &status) == 0, "adaact: ", file.string(),
              " cannot be read: ", std::strerror(errno));
  return {static_cast<std::int64_t>(status.st_size), nanoseconds(status.st_mtim)};
}

}  // namespace adaact
