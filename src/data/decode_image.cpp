#include "data/decode_image.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include <c10/util/Exception.h>

#include "data/exif_orientation.h"
#include "io/file_descriptor.h"

namespace adaact {
namespace {

EncodedImage read_whole(const std::filesystem::path& path) {
  TORCH_CHECK(!std::filesystem::is_directory(path), "adaact: ", path.string(),
              " is a folder, expected a JPEG, PNG or WebP file");
  const auto bytes = read_file(path);
  TORCH_CHECK(!bytes.empty(), "adaact: ", path.string(), " is empty");
  return {path, {bytes.begin(), bytes.end()}};
}

template <std::size_t Size>
bool starts_with(const std::vector<std::uint8_t>& bytes,
                 const std::array<std::uint8_t, Size>& signature) {
  return bytes.size() >= Size && std::equal(signature.begin(), signature.end(), bytes.begin());
}

std::string first_bytes(const std::vector<std::uint8_t>& bytes) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(4, bytes.size()); ++i) {
    std::array<char, 4> hexadecimal{};
    std::snprintf(hexadecimal.data(), hexadecimal.size(), " %02x", bytes[i]);
    text += hexadecimal.data();
  }
  return text;
}

bool is_webp(const std::vector<std::uint8_t>& bytes) {
  constexpr std::array<std::uint8_t, 4> kRiff{'R', 'I', 'F', 'F'};
  constexpr std::array<std::uint8_t, 4> kWebp{'W', 'E', 'B', 'P'};
  return bytes.size() >= 12 && starts_with(bytes, kRiff) &&
         std::equal(kWebp.begin(), kWebp.end(), bytes.begin() + 8);
}

RgbImage decode_as_stored(const EncodedImage& file, std::int64_t enough) {
  constexpr std::array<std::uint8_t, 3> kJpeg{0xFF, 0xD8, 0xFF};
  constexpr std::array<std::uint8_t, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  if (starts_with(file.bytes, kJpeg)) return decode_jpeg(file, enough);
  if (starts_with(file.bytes, kPng)) return decode_png(file);
  if (is_webp(file.bytes)) return decode_webp(file);
  TORCH_CHECK(false, "adaact: ", file.path.string(), " is neither JPEG nor PNG nor WebP: it has",
              first_bytes(file.bytes), " at byte 0");
}

}  // namespace

RgbImage decode_image(const std::filesystem::path& path, std::int64_t enough) {
  return decode_image(read_whole(path), enough);
}

RgbImage decode_image(const EncodedImage& file, std::int64_t enough) {
  return oriented(decode_as_stored(file, enough), exif_orientation(file.bytes));
}

void check_image_size(const EncodedImage& file, std::int64_t height, std::int64_t width,
                      std::int64_t least_bytes) {
  TORCH_CHECK(height > 0 && width > 0 && height <= kMostPixels / width,
              "adaact: ", file.path.string(), " has ", height, "x", width,
              " pixels, expected 1 to ", kMostPixels);
  TORCH_CHECK(least_bytes <= static_cast<std::int64_t>(file.bytes.size()),
              "adaact: ", file.path.string(), " is truncated or no image: ", height, "x", width,
              " pixels do not fit into ", file.bytes.size(), " bytes, expected at least ",
              least_bytes);
}

RgbImage allocate_image(const EncodedImage& file, std::int64_t height, std::int64_t width,
                        std::int64_t least_bytes) {
  check_image_size(file, height, width, least_bytes);
  return {height, width, std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * 3))};
}

}  // namespace adaact
