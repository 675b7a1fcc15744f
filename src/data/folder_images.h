#pragma once

#include "data/encoded_images.h"
#include "data/image_listing.h"

namespace adaact {

/// Images that are files, in a folder for each class.
class FolderImages : public EncodedImages {
 public:
  FolderImages(const std::filesystem::path& folder, const std::filesystem::path& root);

  std::int64_t size() const override { return listing_.images.size(); }
  std::int64_t label(std::int64_t number) const override { return listing_.label(number); }
  std::filesystem::path path(std::int64_t number) const override;
  EncodedImage read(std::int64_t number) const override;
  FileStamp stamp(std::int64_t number) const override;

 private:
  FolderImages(std::filesystem::path folder, FolderListing listing);

  std::filesystem::path folder_;
  FolderListing listing_;
};

}  // namespace adaact
