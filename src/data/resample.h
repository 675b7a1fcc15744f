#pragma once

#include <cstdint>

#include <adaact/data/image_part.h>

#include "data/decode_image.h"

namespace adaact {

/// Samples of channels side by side.
struct PixelView {
  const std::uint8_t* pixels;
  std::int64_t height;
  std::int64_t width;
  std::int64_t channels;  // 1 or 3
};

/// Scales an image and writes the planes (channels, height, width), with Pillow's result to the bit: every
/// output pixel is a weighted mean of the input pixels around it, first along x, then along y, rounded both
/// times. The filter is as wide as the scale asks for, so that fine detail is averaged.
void resize_image(const PixelView& image, ResampleFilter filter, bool mirrored, std::int64_t height,
                  std::int64_t width, std::uint8_t* planes);

/// Scales the shorter side to `resize` pixels (the longer one in proportion, rounded down) and cuts
/// a square of `crop` ≤ `resize` out of the middle. Writes the planes (3, crop, crop). Bilinear.
void resize_and_crop(const RgbImage& image, std::int64_t resize, std::int64_t crop,
                     std::uint8_t* planes);

}  // namespace adaact
