#pragma once

#include <cstdint>
#include <vector>

#include "data/decode_image.h"

namespace adaact {

/// How a photograph is to be turned, 1 to 8, as the EXIF data of a JPEG, PNG or WebP file say; 1, which is
/// not at all, where they say nothing or nothing that makes sense. Never an error: a picture with damaged
/// EXIF data is a picture.
int exif_orientation(const std::vector<std::uint8_t>& file);

/// How the pixels of a file are seen.
class Orientation {
 public:
  explicit Orientation(int exif);

  /// Rows of the file are seen as columns.
  bool transposed() const { return transposed_; }

  /// The image as it is meant to be seen.
  RgbImage turn(RgbImage image) const;

  /// Where a part that is seen lies in a file of this height and width.
  PixelBox stored(const PixelBox& seen, std::int64_t height, std::int64_t width) const;

 private:
  // These tell which pixel of the file is seen at (y, x): whether its row is counted from the bottom of the file and
  // its column from the right, and whether rows of the file are seen as columns.
  bool from_bottom_;
  bool from_right_;
  bool transposed_;
};

}  // namespace adaact
