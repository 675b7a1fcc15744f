#pragma once

// Tiny WebP files, where there is libwebp.

#ifdef ADAACT_WITH_WEBP

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <webp/encode.h>

#include "data/image_files.h"

namespace adaact::testing {

/// Samples of 3 channels, or 4 with transparency, which must be lossless.
inline std::string webp_bytes(const RawImage& image, bool lossless = true) {
  std::uint8_t* bytes = nullptr;
  const auto stride = image.width * image.channels;
  const auto* samples = image.samples.data();
  std::size_t size = 0;
  if (image.channels == 4) {
    size = WebPEncodeLosslessRGBA(samples, image.width, image.height, stride, &bytes);
  } else if (lossless) {
    size = WebPEncodeLosslessRGB(samples, image.width, image.height, stride, &bytes);
  } else {
    size = WebPEncodeRGB(samples, image.width, image.height, stride, 95.0F, &bytes);
  }
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  WebPFree(bytes);
  return text;
}

inline void write_webp(const std::filesystem::path& path, const RawImage& image,
                       bool lossless = true) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << webp_bytes(image, lossless);
}

/// A chunk of a WebP file.
inline std::string webp_chunk(const std::string& name, const std::string& content) {
  auto chunk = name;
  for (int shift = 0; shift < 32; shift += 8) {
    chunk += static_cast<char>(content.size() >> shift);
  }
  chunk += content;
  if (content.size() % 2 != 0) chunk += '\0';
  return chunk;
}

inline std::string webp_of_chunks(const std::string& chunks) {
  return webp_chunk("RIFF", "WEBP" + chunks);
}

/// The chunk that says what else there is: of a canvas so large, by flags (2: animation, 8: EXIF).
inline std::string webp_header(int height, int width, char flags) {
  std::string content{flags, 0, 0, 0};
  for (const int side : {width - 1, height - 1}) {
    for (int shift = 0; shift < 24; shift += 8) content += static_cast<char>(side >> shift);
  }
  return webp_chunk("VP8X", content);
}

}  // namespace adaact::testing

#endif
