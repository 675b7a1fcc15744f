#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace adaact {

struct RgbImage {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> pixels;  // (H, W, 3)
};

/// A file in memory and what to call it in errors.
struct EncodedImage {
  std::filesystem::path path;
  std::vector<std::uint8_t> bytes;
};

/// A JPEG or PNG file as RGB. Grey, palettes and CMYK become RGB, 16 bits become 8, transparency is
/// dropped. Errors name the file and the byte.
RgbImage decode_image(const std::filesystem::path& path);

RgbImage decode_jpeg(const EncodedImage& file);
RgbImage decode_png(const EncodedImage& file);

/// Room for an image, unless a damaged header asks for more than any photograph has.
RgbImage allocate_image(const EncodedImage& file, std::int64_t height, std::int64_t width);

}  // namespace adaact
