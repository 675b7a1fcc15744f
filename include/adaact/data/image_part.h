#pragma once

#include <cstdint>
#include <functional>

namespace adaact {

/// How pixels between pixels are found.
enum class ResampleFilter : std::uint8_t { Bilinear, Bicubic };

struct PixelBox {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// A part of an image, and how it is brought to another size.
struct ImagePart {
  PixelBox box;
  ResampleFilter filter = ResampleFilter::Bilinear;
  bool mirrored = false;
};

/// Says which part of an image of this size is wanted.
using ChoosePart = std::function<ImagePart(std::int64_t height, std::int64_t width)>;

}  // namespace adaact
