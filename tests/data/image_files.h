#pragma once

// Tiny image files. Errors of libjpeg and libpng end the test program: there are none to expect.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include <jpeglib.h>
#include <png.h>

namespace adaact::testing {

/// Samples of `channels` each, (height, width, channels).
struct RawImage {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<std::uint8_t> samples;
};

inline RawImage plain_image(int height, int width, const std::vector<std::uint8_t>& colour) {
  RawImage image{height, width, static_cast<int>(colour.size()), {}};
  for (int i = 0; i < height * width; ++i) {
    image.samples.insert(image.samples.end(), colour.begin(), colour.end());
  }
  return image;
}

/// Every pixel differs from its neighbours.
inline RawImage varied_image(int height, int width, int channels) {
  RawImage image{height, width, channels, {}};
  for (int i = 0; i < height * width * channels; ++i) {
    image.samples.push_back(static_cast<std::uint8_t>(i * 37 + i / 7));
  }
  return image;
}

class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path) {
    std::filesystem::create_directories(path.parent_path());
    file_.reset(std::fopen(path.c_str(), "wb"));
  }
  std::FILE* get() const { return file_.get(); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

struct JpegKind {
  J_COLOR_SPACE given = JCS_RGB;
  bool adobe_marker = false;
  bool progressive = false;
  int columns_of_colour = 2;  // pixels that share a colour, of a colour image
  int rows_of_colour = 2;
  int quality = 100;
  bool arithmetic = false;  // coded so, where libjpeg can: in the place of Huffman's codes
};

inline void write_jpeg(const std::filesystem::path& path, const RawImage& image,
                       const JpegKind& kind = {}) {
  const OpenFile file(path);
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file.get());
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = image.channels;
  info.in_color_space = kind.given;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, kind.quality, TRUE);
  if (kind.given == JCS_RGB) {
    info.comp_info[0].h_samp_factor = kind.columns_of_colour;
    info.comp_info[0].v_samp_factor = kind.rows_of_colour;
  }
  if (kind.given == JCS_CMYK) info.write_Adobe_marker = kind.adobe_marker ? TRUE : FALSE;
  if (kind.progressive) jpeg_simple_progression(&info);
  info.arith_code = kind.arithmetic ? TRUE : FALSE;
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPLE*>(image.samples.data()) +
                static_cast<std::size_t>(info.next_scanline) * image.width * image.channels;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
}

struct PngKind {
  int colour_type = PNG_COLOR_TYPE_RGB;
  int bits = 8;
  bool interlaced = false;
  std::vector<png_color> palette;
};

/// The samples are those of the file: packed if `bits` < 8, two bytes each if `bits` is 16.
inline void write_png(const std::filesystem::path& path, const RawImage& image,
                      const PngKind& kind = {}) {
  const OpenFile file(path);
  auto* png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  auto* info = png_create_info_struct(png);
  png_init_io(png, file.get());
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width),
               static_cast<png_uint_32>(image.height), kind.bits, kind.colour_type,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!kind.palette.empty()) {
    png_set_PLTE(png, info, kind.palette.data(), static_cast<int>(kind.palette.size()));
  }
  const auto row_bytes =
      (static_cast<std::size_t>(image.width) * image.channels * kind.bits + 7) / 8;
  std::vector<png_bytep> rows;
  for (int y = 0; y < image.height; ++y) {
    rows.push_back(const_cast<png_bytep>(image.samples.data()) + y * row_bytes);
  }
  png_write_info(png, info);
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
}

}  // namespace adaact::testing
