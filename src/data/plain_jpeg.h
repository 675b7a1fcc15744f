#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace adaact {

/// A JPEG that every decoder decodes alike, up to rounding.
struct PlainJpeg {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::size_t size = 0;        // bytes of the file up to the end of the image
  bool progressive = false;    // its pixels are coded in several scans
  bool shares_colour = false;  // a colour belongs to several pixels, over which it is spread
};

/// What the file says about itself if it is one of these: grey or YCbCr of 8 bits, baseline in one scan or progressive,
/// with a colour for each pixel, two columns or 2×2 pixels, Huffman coded by tables that it brings, and complete. Nothing
/// of any other: CMYK, RGB, files that were cut and whatever else a decoder may take amiss. All segments are checked; of
/// the coded pixels no more than where they end.
std::optional<PlainJpeg> plain_jpeg(const std::uint8_t* bytes, std::size_t size);

}  // namespace adaact
