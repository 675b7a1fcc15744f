// JPEG and PNG: the decoders by themselves, and a picture as a data set or `adaact predict` reads it.

#include <vector>

#include "data/decode_image.h"
#include "data/image_files.h"
#include "data/resample.h"
#include "fuzz/fuzz_targets.h"
#include "fuzz/gzip_mutator.h"
#include "fuzz/input_folder.h"
#include "fuzz/png_mutator.h"

namespace adaact::fuzz {
namespace {

/// A pixel takes three bytes here, and in a file little more than 2 bits of a run of 258 bytes, each of
/// eight pixels. Decoders hold more than the pixels: libjpeg up to six bytes of coefficients for each.
constexpr MemoryAllowance kOfPictures{std::size_t{16} << 20, 3 * 8 * 1032};

EncodedImage encoded(const std::string& bytes) {
  return {kInputName, std::vector<std::uint8_t>(bytes.begin(), bytes.end())};
}

void check_pixels(const RgbImage& image) {
  require(image.height > 0 && image.width > 0 &&
              image.pixels.size() == static_cast<std::size_t>(3 * image.height * image.width),
          "a decoded picture has another number of pixels than it says");
}

void read_jpeg(const std::string& bytes) { check_pixels(decode_jpeg(encoded(bytes))); }
void read_png(const std::string& bytes) { check_pixels(decode_png(encoded(bytes))); }

void read_picture(const std::string& bytes) {
  static const InputFolder folder;
  const auto image = decode_image(folder.write("picture", bytes));
  check_pixels(image);
  std::vector<std::uint8_t> planes(3 * 4 * 4);
  resize_and_crop(image, 5, 4, planes.data());
}

template <typename Kind>
std::string jpeg_bytes(const testing::RawImage& image, const Kind& kind) {
  const InputFolder folder;
  testing::write_jpeg(folder.path() / "seed", image, kind);
  return bytes_of_file(folder.path() / "seed");
}

std::string png_bytes(const testing::RawImage& image, const testing::PngKind& kind = {}) {
  const InputFolder folder;
  testing::write_png(folder.path() / "seed", image, kind);
  return bytes_of_file(folder.path() / "seed");
}

std::vector<Seed> jpeg_seeds() {
  testing::JpegKind progressive;
  progressive.progressive = true;
  return {{"rgb", jpeg_bytes(testing::plain_image(9, 17, {200, 30, 90}), testing::JpegKind{})},
          {"grey", jpeg_bytes(testing::varied_image(3, 5, 1), testing::JpegKind{JCS_GRAYSCALE})},
          {"inks",
           jpeg_bytes(testing::plain_image(8, 8, {1, 2, 3, 4}), testing::JpegKind{JCS_CMYK, true})},
          {"progressive", jpeg_bytes(testing::plain_image(8, 8, {9, 99, 199}), progressive)}};
}

/// The chunks of a picture with more of them after the first.
std::string with_chunks(const std::string& png, const std::vector<PngChunk>& more) {
  auto chunks = png_chunks(png);
  chunks.insert(chunks.begin() + 1, more.begin(), more.end());
  return png_of(chunks);
}

std::vector<Seed> png_seeds() {
  testing::PngKind palette;
  palette.colour_type = PNG_COLOR_TYPE_PALETTE;
  palette.bits = 2;
  palette.palette = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}};
  testing::PngKind deep;
  deep.colour_type = PNG_COLOR_TYPE_RGB_ALPHA;
  deep.bits = 16;
  deep.interlaced = true;
  testing::PngKind grey;
  grey.colour_type = PNG_COLOR_TYPE_GRAY;
  grey.bits = 1;
  const auto rgb = png_bytes(testing::varied_image(3, 4, 3));
  const std::string nul(1, '\0');
  return {{"rgb", rgb},
          {"palette", png_bytes({2, 3, 1, {0x18, 0x90}}, palette)},
          {"deep", png_bytes({5, 6, 4, testing::varied_image(5, 6, 8).samples}, deep)},
          {"grey", png_bytes({2, 9, 1, {0xAA, 0x80, 0x55, 0x00}}, grey)},
          {"with_text", with_chunks(rgb, {{"gAMA", std::string("\0\0\xB1\x8F", 4)},
                                          {"tEXt", "Title" + nul + "a picture"},
                                          {"zTXt", "Comment" + nul + nul + packed("packed text")},
                                          {"tRNS", std::string("\0\1\0\2\0\3", 6)}})}};
}

std::vector<Seed> picture_seeds() {
  return {{"rgb_png", png_seeds().front().bytes}, {"rgb_jpeg", jpeg_seeds().front().bytes}};
}

}  // namespace

FuzzTarget jpeg_target() { return {"jpeg", read_jpeg, jpeg_seeds, nullptr, kOfPictures}; }
FuzzTarget png_target() { return {"png", read_png, png_seeds, mutate_png, kOfPictures}; }
FuzzTarget picture_target() {
  return {"picture", read_picture, picture_seeds, nullptr, kOfPictures};
}

}  // namespace adaact::fuzz
