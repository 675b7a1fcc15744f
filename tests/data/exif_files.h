#pragma once

// EXIF data, and files that have them.

#include <cstdint>
#include <string>

#include <zlib.h>

namespace adaact::testing {

inline std::string number_bytes(std::size_t number, int count, bool big_endian) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const auto shift = 8 * (big_endian ? count - 1 - i : i);
    bytes += static_cast<char>(number >> shift);
  }
  return bytes;
}

/// TIFF with two entries: another one, and how the picture is to be turned.
inline std::string exif_data(std::size_t orientation, bool big_endian) {
  const auto number = [&](std::size_t value, int count) {
    return number_bytes(value, count, big_endian);
  };
  const std::string order = big_endian ? "MM" : "II";
  return order + number(42, 2) + number(8, 4) + number(2, 2) +                   // one list of two
         number(0x010E, 2) + number(2, 2) + number(3, 4) + "ab" + '\0' + '\0' +  // a title
         number(0x0112, 2) + number(3, 2) + number(1, 4) + number(orientation, 2) + number(0, 2) +
         number(0, 4);
}

inline std::string jpeg_with_exif(const std::string& jpeg, const std::string& exif) {
  const auto content = std::string("Exif\0\0", 6) + exif;
  return jpeg.substr(0, 2) + "\xFF\xE1" + number_bytes(content.size() + 2, 2, true) + content +
         jpeg.substr(2);
}

inline std::string png_with_exif(const std::string& png, const std::string& exif) {
  constexpr std::size_t kEndOfHeader = 8 + 25;
  const auto checked = "eXIf" + exif;
  const auto checksum =
      crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return png.substr(0, kEndOfHeader) + number_bytes(exif.size(), 4, true) + checked +
         number_bytes(checksum, 4, true) + png.substr(kEndOfHeader);
}

}  // namespace adaact::testing
