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

/// The largest photograph: 134 megapixels, which are 402 MB as RGB.
inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 27;
/// The most scans of a progressive JPEG. Programs write about ten; every further one may go over all pixels
/// again at the price of a few bytes. So the pixels of all scans are limited too: of the largest photograph
/// there may be 16.
inline constexpr std::int64_t kMostScans = 50;
inline constexpr std::int64_t kMostScannedPixels = 16 * kMostPixels;

/// A JPEG or PNG file as RGB. Grey, palettes and CMYK become RGB, 16 bits become 8, transparency is
/// dropped. Errors name the file and the byte. An image of too many pixels is refused before memory
/// is taken for it.
RgbImage decode_image(const std::filesystem::path& path);
RgbImage decode_image(const EncodedImage& file);

RgbImage decode_jpeg(const EncodedImage& file);
RgbImage decode_png(const EncodedImage& file);

/// Room for an image, unless its header asks for more than any photograph has, or more than the file can
/// hold: `least_bytes` is what so many pixels take at least.
RgbImage allocate_image(const EncodedImage& file, std::int64_t height, std::int64_t width,
                        std::int64_t least_bytes);

}  // namespace adaact
