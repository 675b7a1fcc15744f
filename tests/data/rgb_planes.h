#pragma once

#include <cstdint>
#include <vector>

#include "data/decode_image.h"

namespace adaact::testing {

/// The pixels of an image as planes (3, H, W).
inline std::vector<std::uint8_t> planes_of(const RgbImage& image) {
  std::vector<std::uint8_t> planes;
  for (std::size_t c = 0; c < 3; ++c) {
    for (auto i = c; i < image.pixels.size(); i += 3) planes.push_back(image.pixels[i]);
  }
  return planes;
}

}  // namespace adaact::testing
