#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/encoded_images.h"
#include "data/remembered_listing.h"

namespace adaact::testing {

/// As many images as one likes, without files.
class MadeUpImages : public EncodedImages {
 public:
  explicit MadeUpImages(std::int64_t size = kLeastRemembered)
      : EncodedImages({"a"}, {}), size_(size) {}

  std::int64_t size() const override { return size_; }
  std::int64_t label(std::int64_t /*number*/) const override { return 0; }
  std::filesystem::path path(std::int64_t number) const override {
    return "images/a/" + std::to_string(number) + ".jpg";
  }
  EncodedImage read(std::int64_t number) const override {
    TORCH_CHECK(number != unreadable, "adaact: ", path(number).string(), " cannot be opened");
    return {path(number), {1}};
  }
  FileStamp stamp(std::int64_t number) const override { return {100, number == changed ? 2 : 1}; }

  std::int64_t changed = -1;
  std::int64_t unreadable = -1;

 private:
  std::int64_t size_;
};

}  // namespace adaact::testing
