#pragma once

#include <cstdint>

#include "data/decode_image.h"

namespace adaact {

/// Scales the shorter side to `resize` pixels (the longer one in proportion, rounded down) and cuts
/// a square of `crop` ≤ `resize` out of the middle. Writes the planes (3, crop, crop).
///
/// Bilinear with antialiasing: every output pixel averages the input pixels under a triangle that
/// is as wide as two output pixels, or two input pixels where the image grows.
void resize_and_crop(const RgbImage& image, std::int64_t resize, std::int64_t crop,
                     std::uint8_t* planes);

}  // namespace adaact
