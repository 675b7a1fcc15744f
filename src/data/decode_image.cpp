#include "data/decode_image.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include <c10/util/Exception.h>

#include "io/file_descriptor.h"

namespace adaact {
namespace {

EncodedImage read_whole(const std::filesystem::path& path) {
  TORCH_CHECK(!std::filesystem::is_directory(path), "adaact: ", path.string(),
              " is a folder, expected a JPEG or PNG file");
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

}  // namespace

RgbImage decode_image(const std::filesystem::path& path) { return decode_image(read_whole(path)); }

RgbImage decode_image(const EncodedImage& file) {
  constexpr std::array<std::uint8_t, 3> kJpeg{0xFF, 0xD8, 0xFF};
  constexpr std::array<std::uint8_t, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  if (starts_with(file.bytes, kJpeg)) return decode_jpeg(file);
  if (starts_with(file.bytes, kPng)) return decode_png(file);
  TORCH_CHECK(false, "adaact: ", file.path.string(), " is neither JPEG nor PNG: it has",
              first_bytes(file.bytes), " at byte 0");
}

RgbImage allocate_image(const EncodedImage& file, std::int64_t height, std::int64_t width,
                        std::int64_t least_bytes) {
  TORCH_CHECK(height > 0 && width > 0 && height <= kMostPixels / width,
              "adaact: ", file.path.string(), " has ", height, "x", width,
              " pixels, expected 1 to ", kMostPixels);
  TORCH_CHECK(least_bytes <= static_cast<std::int64_t>(file.bytes.size()),
              "adaact: ", file.path.string(), " is truncated or no image: ", height, "x", width,
              " pixels do not fit into ", file.bytes.size(), " bytes, expected at least ",
              least_bytes);
  return {height, width, std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * 3))};
}

}  // namespace adaact
