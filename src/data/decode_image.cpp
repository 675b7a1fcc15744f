#include "data/decode_image.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include <c10/util/Exception.h>

namespace adaact {
namespace {

EncodedImage read_whole(const std::filesystem::path& path) {
  TORCH_CHECK(!std::filesystem::is_directory(path), "adaact: ", path.string(),
              " is a folder, expected a JPEG or PNG file");
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  TORCH_CHECK(file.good(), "adaact: ", path.string(), " cannot be opened");
  const auto size = static_cast<std::int64_t>(file.tellg());
  TORCH_CHECK(size > 0, "adaact: ", path.string(), " is empty");
  EncodedImage image{path, std::vector<std::uint8_t>(static_cast<std::size_t>(size))};
  file.seekg(0);
  file.read(reinterpret_cast<char*>(image.bytes.data()), size);
  TORCH_CHECK(file.gcount() == size, "adaact: ", path.string(), " cannot be read at byte ",
              file.gcount());
  return image;
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

RgbImage decode_image(const std::filesystem::path& path) {
  constexpr std::array<std::uint8_t, 3> kJpeg{0xFF, 0xD8, 0xFF};
  constexpr std::array<std::uint8_t, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  const auto file = read_whole(path);
  if (starts_with(file.bytes, kJpeg)) return decode_jpeg(file);
  if (starts_with(file.bytes, kPng)) return decode_png(file);
  TORCH_CHECK(false, "adaact: ", path.string(), " is neither JPEG nor PNG: it has",
              first_bytes(file.bytes), " at byte 0");
}

RgbImage allocate_image(const EncodedImage& file, std::int64_t height, std::int64_t width) {
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;
  TORCH_CHECK(height > 0 && width > 0 && height <= kMostPixels / width,
              "adaact: ", file.path.string(), " has ", height, "x", width,
              " pixels, expected 1 to ", kMostPixels);
  return {height, width, std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * 3))};
}

}  // namespace adaact
