#include "data/exif_orientation.h"

#include <cstddef>
#include <string_view>
#include <utility>

namespace adaact {
namespace {

constexpr std::string_view kExifMark("Exif\0\0", 6);

/// A number of `count` bytes at a place; 0 where the text ends before it.
std::size_t number_in(std::string_view text, std::size_t at, std::size_t count, bool big_endian) {
  if (at > text.size() || count > text.size() - at) return 0;
  std::size_t number = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = big_endian ? i : count - 1 - i;
    number = (number << 8) | static_cast<std::uint8_t>(text[at + place]);
  }
  return number;
}

bool has_at(std::string_view text, std::size_t at, std::string_view word) {
  return at <= text.size() && text.compare(at, word.size(), word) == 0;
}

std::string_view without_mark(std::string_view exif) {
  return has_at(exif, 0, kExifMark) ? exif.substr(kExifMark.size()) : exif;
}

/// Segments are FF, a marker and, but for a few, a length that counts itself. The picture begins with DA.
std::string_view exif_in_jpeg(std::string_view file) {
  for (std::size_t at = 2; at + 4 <= file.size() && file[at] == '\xFF';) {
    const auto marker = static_cast<std::uint8_t>(file[at + 1]);
    if (marker == 0xFF) {  // filling
      ++at;
      continue;
    }
    if (marker == 0xDA || marker == 0xD9) break;
    if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7)) {
      at += 2;
      continue;
    }
    const auto length = number_in(file, at + 2, 2, /*big_endian=*/true);
    if (length < 2 || length > file.size() - at - 2) break;
    const auto content = file.substr(at + 4, length - 2);
    if (marker == 0xE1 && has_at(content, 0, kExifMark)) return without_mark(content);
    at += 2 + length;
  }
  return {};
}

/// Chunks are a length, a name, so many bytes and a checksum.
std::string_view exif_in_png(std::string_view file) {
  for (std::size_t at = 8; at + 12 <= file.size();) {
    const auto length = number_in(file, at, 4, /*big_endian=*/true);
    if (length > file.size() - at - 12) break;
    if (has_at(file, at + 4, "eXIf")) return file.substr(at + 8, length);
    at += 12 + length;
  }
  return {};
}

/// Chunks are a name, a length and so many bytes, with one more where their number is odd.
std::string_view exif_in_webp(std::string_view file) {
  for (std::size_t at = 12; at + 8 <= file.size();) {
    const auto length = number_in(file, at + 4, 4, /*big_endian=*/false);
    if (length > file.size() - at - 8) break;
    if (has_at(file, at, "EXIF")) return without_mark(file.substr(at + 8, length));
    at += 8 + length + length % 2;
  }
  return {};
}

/// EXIF is TIFF: the order of bytes, where the first list of entries is, and there of each entry of 12
/// bytes its tag, type, count and value.
int orientation_in_tiff(std::string_view tiff) {
  constexpr std::size_t kOrientationTag = 0x0112;
  constexpr std::size_t kShort = 3;
  const bool big_endian = has_at(tiff, 0, std::string_view("MM\0*", 4));
  if (!big_endian && !has_at(tiff, 0, std::string_view("II*\0", 4))) return 1;
  const auto list = number_in(tiff, 4, 4, big_endian);
  const auto count = number_in(tiff, list, 2, big_endian);
  for (std::size_t i = 0; i < count; ++i) {
    const auto entry = list + 2 + 12 * i;
    if (entry + 12 > tiff.size()) break;
    if (number_in(tiff, entry, 2, big_endian) != kOrientationTag) continue;
    if (number_in(tiff, entry + 2, 2, big_endian) != kShort) break;
    const auto value = number_in(tiff, entry + 8, 2, big_endian);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace

int exif_orientation(const std::vector<std::uint8_t>& file) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  if (has_at(bytes, 0, "\xFF\xD8")) return orientation_in_tiff(exif_in_jpeg(bytes));
  if (has_at(bytes, 0, "\x89PNG")) return orientation_in_tiff(exif_in_png(bytes));
  if (has_at(bytes, 0, "RIFF")) return orientation_in_tiff(exif_in_webp(bytes));
  return 1;
}

Orientation::Orientation(int exif)
    : from_bottom_(exif == 3 || exif == 4 || exif == 6 || exif == 7),
      from_right_(exif == 2 || exif == 3 || exif == 7 || exif == 8),
      transposed_(exif >= 5) {}

RgbImage Orientation::turn(RgbImage image) const {
  if (!from_bottom_ && !from_right_ && !transposed_) return image;
  RgbImage seen{image.height, image.width, std::vector<std::uint8_t>(image.pixels.size())};
  if (transposed_) std::swap(seen.height, seen.width);
  auto* out = seen.pixels.data();
  for (std::int64_t y = 0; y < seen.height; ++y) {
    for (std::int64_t x = 0; x < seen.width; ++x, out += 3) {
      auto row = transposed_ ? x : y;
      auto column = transposed_ ? y : x;
      if (from_bottom_) row = image.height - 1 - row;
      if (from_right_) column = image.width - 1 - column;
      const auto* in = image.pixels.data() + 3 * (row * image.width + column);
      out[0] = in[0];
      out[1] = in[1];
      out[2] = in[2];
    }
  }
  return seen;
}

PixelBox Orientation::stored(const PixelBox& seen, std::int64_t height, std::int64_t width) const {
  auto box = seen;
  if (transposed_) box = {seen.left, seen.top, seen.width, seen.height};
  if (from_bottom_) box.top = height - box.top - box.height;
  if (from_right_) box.left = width - box.left - box.width;
  return box;
}

}  // namespace adaact
