#pragma once

#include <cstdint>
#include <vector>

#include "data/decode_image.h"

namespace adaact {

/// How a photograph is to be turned, 1 to 8, as the EXIF data of a JPEG, PNG or WebP file say; 1, which is
/// not at all, where they say nothing or nothing that makes sense. Never an error: a picture with damaged
/// EXIF data is a picture.
int exif_orientation(const std::vector<std::uint8_t>& file);

/// The image as it is meant to be seen.
RgbImage oriented(RgbImage image, int orientation);

}  // namespace adaact
