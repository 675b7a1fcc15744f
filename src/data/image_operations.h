#pragma once

#include <cstdint>

#include <adaact/data/dataset.h>

#include "data/pixel_arithmetic.h"

namespace adaact {

/// What RandAugment does to images.
enum class ImageOperation : std::uint8_t {
  AutoContrast,
  Equalize,
  Invert,
  Rotate,       // by so many degrees
  Posterize,    // so many bits are left of a level
  Solarize,     // levels from so much on are inverted
  SolarizeAdd,  // so much is added to the levels of the darker half
  Color,        // a factor, for this and the next three: 1 changes nothing
  Contrast,
  Brightness,
  Sharpness,
  ShearX,  // by so much of the other side
  ShearY,
  TranslateX,  // by so much of the side
  TranslateY,
};
inline constexpr std::uint32_t kImageOperations = 15;

/// Whether an operation moves pixels and leaves their levels, but for those between pixels.
ADAACT_HOST_DEVICE inline bool is_geometric(ImageOperation operation) {
  return operation == ImageOperation::Rotate || operation >= ImageOperation::ShearX;
}

/// Where a geometric operation takes the pixels from.
AffineMap map_of(ImageOperation operation, double argument, const ImageShape& shape);

/// Does one of them to planes (3, H, W), with Pillow's result to the bit. The geometric ones use the filter.
void apply_operation(ImageOperation operation, double argument, ResampleFilter filter,
                     const ImageShape& shape, const std::uint8_t* in, std::uint8_t* out);

}  // namespace adaact
