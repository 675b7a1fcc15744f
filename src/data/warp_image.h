#pragma once

#include <cstdint>

#include <adaact/data/dataset.h>

#include "data/pixel_arithmetic.h"

namespace adaact {

/// Moves an image of planes (3, H, W) by a map. What comes from outside the image keeps the mean colour of
/// ImageNet.
void warp_image(const AffineMap& map, ResampleFilter filter, const ImageShape& shape,
                const std::uint8_t* in, std::uint8_t* out);

}  // namespace adaact
