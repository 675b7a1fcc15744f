#pragma once

// Tiny files in the formats of the data sets.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <zlib.h>

namespace adaact::testing {

using Bytes = std::vector<std::uint8_t>;

inline void write_file(const std::filesystem::path& path, const Bytes& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  write_file(path, Bytes(text.begin(), text.end()));
}

inline void write_gzip(const std::filesystem::path& path, const Bytes& bytes) {
  std::filesystem::create_directories(path.parent_path());
  auto* file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

inline Bytes read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::string text_of(const std::filesystem::path& path) {
  const auto bytes = read_bytes(path);
  return {bytes.begin(), bytes.end()};
}

/// Leaves this part of a file, from its beginning.
inline void cut(const std::filesystem::path& path, double part) {
  auto bytes = read_bytes(path);
  bytes.resize(static_cast<std::size_t>(static_cast<double>(bytes.size()) * part));
  write_file(path, bytes);
}

/// A pixel that tells images, and places in them, apart.
inline std::uint8_t pixel(std::size_t image, std::size_t place) {
  return static_cast<std::uint8_t>(image * 57 + place * 13 + place / 29);
}

inline Bytes idx_header(std::uint32_t magic, const std::vector<std::uint32_t>& sizes) {
  Bytes bytes;
  const auto append = [&](std::uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<std::uint8_t>(number >> shift));
    }
  };
  append(magic);
  for (const auto size : sizes) append(size);
  return bytes;
}

inline Bytes idx_images(std::uint32_t count) {
  auto bytes = idx_header(2051, {count, 28, 28});
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t place = 0; place < 28 * 28; ++place) bytes.push_back(pixel(i, place));
  }
  return bytes;
}

inline Bytes idx_labels(const Bytes& labels) {
  auto bytes = idx_header(2049, {static_cast<std::uint32_t>(labels.size())});
  bytes.insert(bytes.end(), labels.begin(), labels.end());
  return bytes;
}

/// One record per entry of `labels`, each of one label byte (CIFAR-10) or two (CIFAR-100); the
/// pixels are those of the images `first`, `first` + 1, …
inline Bytes cifar_records(const std::vector<Bytes>& labels, std::size_t first = 0) {
  Bytes bytes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    bytes.insert(bytes.end(), labels[i].begin(), labels[i].end());
    for (std::size_t place = 0; place < 3 * 32 * 32; ++place) {
      bytes.push_back(pixel(first + i, place));
    }
  }
  return bytes;
}

}  // namespace adaact::testing
