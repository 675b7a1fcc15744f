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
  const auto bytes = read_file(path, kMostFileBytes);
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

bool is_jpeg(const std::vector<std::uint8_t>& bytes) {
  constexpr std::array<std::uint8_t, 3> kJpeg{0xFF, 0xD8, 0xFF};
  return starts_with(bytes, kJpeg);
}

RgbImage decode_as_stored(const EncodedImage& file, std::int64_t enough) {
  constexpr std::array<std::uint8_t, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  if (is_jpeg(file.bytes)) return decode_jpeg(file, enough);
  if (starts_with(file.bytes, kPng)) return decode_png(file);
  if (is_webp(file.bytes)) return decode_webp(file);
  TORCH_CHECK(false, "adaact: ", file.path.string(), " is neither JPEG nor PNG nor WebP: it has",
              first_bytes(file.bytes), " at byte 0");
}

RgbImage cut_out(const RgbImage& image, const PixelBox& box) {
  RgbImage part{box.height, box.width,
                std::vector<std::uint8_t>(static_cast<std::size_t>(box.height * box.width * 3))};
  for (std::int64_t y = 0; y < box.height; ++y) {
    const auto* row = image.pixels.data() + ((box.top + y) * image.width + box.left) * 3;
    std::copy_n(row, box.width * 3, part.pixels.data() + y * box.width * 3);
  }
  return part;
}

void check_inside(const PixelBox& box, std::int64_t height, std::int64_t width) {
  TORCH_CHECK(box.height > 0 && box.width > 0 && box.top >= 0 && box.left >= 0 &&
                  box.height <= height - box.top && box.width <= width - box.left,
              "decode_part: the part is ", box.height, "x", box.width, " pixels at row ", box.top,
              " and column ", box.left, ", expected a part of ", height, "x", width);
}

}  // namespace

RgbImage decode_image(const std::filesystem::path& path, std::int64_t enough) {
  return decode_image(read_whole(path), enough);
}

RgbImage decode_image(const EncodedImage& file, std::int64_t enough) {
  return Orientation(exif_orientation(file.bytes)).turn(decode_as_stored(file, enough));
}

RgbImage decode_part(const std::filesystem::path& path, const ChooseBox& choose,
                     std::int64_t enough) {
  return decode_part(read_whole(path), choose, enough);
}

RgbImage decode_part(const EncodedImage& file, const ChooseBox& choose, std::int64_t enough) {
  const Orientation orientation(exif_orientation(file.bytes));
  const auto choose_stored = [&](std::int64_t height, std::int64_t width) {
    const auto seen_height = orientation.transposed() ? width : height;
    const auto seen_width = orientation.transposed() ? height : width;
    const auto box = choose(seen_height, seen_width);
    check_inside(box, seen_height, seen_width);
    return orientation.stored(box, height, width);
  };
  if (is_jpeg(file.bytes)) {
    return orientation.turn(decode_part_of_jpeg(file, choose_stored, enough));
  }
  const auto whole = decode_as_stored(file, 0);
  return orientation.turn(cut_out(whole, choose_stored(whole.height, whole.width)));
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
