#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include <adaact/data/image_part.h>

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
/// The largest file of an image: 2 GiB, twice what so many pixels take with four channels of 16 bits.
inline constexpr std::int64_t kMostFileBytes = std::int64_t{1} << 31;
/// The most scans of a progressive JPEG. Programs write about ten; every further one may go over all pixels
/// again at the price of a few bytes. So the pixels of all scans are limited too: of the largest photograph
/// there may be 16.
inline constexpr std::int64_t kMostScans = 50;
inline constexpr std::int64_t kMostScannedPixels = 16 * kMostPixels;

/// A JPEG, PNG or WebP file as RGB, turned as its EXIF data say. Grey, palettes and CMYK become RGB, 16 bits
/// become 8, transparency is dropped. Errors name the file and, where the library tells, the byte. An image
/// of too many pixels is refused before memory is taken for it.
///
/// A JPEG may come out at a half, a quarter or an eighth of its size, where its shorter side still has
/// `enough` pixels: that saves most of the time that a large photograph takes. 0: never.
RgbImage decode_image(const std::filesystem::path& path, std::int64_t enough = 0);
RgbImage decode_image(const EncodedImage& file, std::int64_t enough = 0);

/// What is enough for resize_and_crop(): its filter then still has four pixels and more to average, so
/// that hardly anything is seen of how they came about.
inline constexpr std::int64_t enough_to_resize(std::int64_t resize) { return 4 * resize; }

/// Says which part of a picture is wanted: of an image so high and wide, which is all of it.
using ChooseBox = std::function<PixelBox(std::int64_t height, std::int64_t width)>;

/// A part of such a file, which is chosen when the size of the whole is known, turned; the same pixels as those of
/// the whole image. Of a JPEG little more than the part is decoded, and nothing behind its last row looked at. It
/// too may come out at a half, a quarter or an eighth of its size.
RgbImage decode_part(const std::filesystem::path& path, const ChooseBox& choose,
                     std::int64_t enough = 0);
RgbImage decode_part(const EncodedImage& file, const ChooseBox& choose, std::int64_t enough = 0);

/// By how much libjpeg divides the size of a JPEG of which this part is wanted: 1, or the largest of 2, 4 and 8 that
/// leaves enough of it.
unsigned jpeg_divisor(const PixelBox& part, std::int64_t enough);

RgbImage decode_jpeg(const EncodedImage& file, std::int64_t enough = 0);
RgbImage decode_part_of_jpeg(const EncodedImage& file, const ChooseBox& choose,
                             std::int64_t enough);
RgbImage decode_png(const EncodedImage& file);
RgbImage decode_webp(const EncodedImage& file);

/// An error where a header asks for more pixels than any photograph has, or more than the file can hold:
/// `least_bytes` is what so many take at least.
void check_image_size(const EncodedImage& file, std::int64_t height, std::int64_t width,
                      std::int64_t least_bytes);

/// Room for an image that passes check_image_size().
RgbImage allocate_image(const EncodedImage& file, std::int64_t height, std::int64_t width,
                        std::int64_t least_bytes);

}  // namespace adaact
