// JPEG, PNG and WebP: the decoders by themselves, how EXIF data say that a picture is to be turned, and a
// picture as a data set or `adaact predict` reads it.

#include <vector>

#include "data/decode_image.h"
#include "data/exif_files.h"
#include "data/exif_orientation.h"
#include "data/image_files.h"
#include "data/plain_jpeg.h"
#include "data/resample.h"
#include "data/webp_files.h"
#include "fuzz/fuzz_targets.h"
#include "fuzz/gzip_mutator.h"
#include "fuzz/input_folder.h"
#include "fuzz/png_mutator.h"

namespace adaact::fuzz {
namespace {

/// A pixel takes three bytes here, and in a file little more than 2 bits of a run of 258 bytes, each of
/// eight pixels. Decoders hold more than the pixels: libjpeg up to six bytes of coefficients for each.
constexpr MemoryAllowance kOfPictures{std::size_t{16} << 20, 3 * 8 * 1032};

/// A WebP of a few bytes may have 2^24 pixels of one colour, three bytes each here and four in libwebp; a
/// photograph that is turned is there twice.
constexpr MemoryAllowance kOfWebp{std::size_t{192} << 20, 3 * 8 * 1032};

EncodedImage encoded(const std::string& bytes) {
  return {kInputName, std::vector<std::uint8_t>(bytes.begin(), bytes.end())};
}

void check_pixels(const RgbImage& image) {
  require(image.height > 0 && image.width > 0 &&
              image.pixels.size() == static_cast<std::size_t>(3 * image.height * image.width),
          "a decoded picture has another number of pixels than it says");
}

/// Another decoder than libjpeg is told the size that libjpeg sees.
void read_jpeg(const std::string& bytes) {
  const auto file = encoded(bytes);
  const auto plain = plain_jpeg(file.bytes.data(), file.bytes.size());
  require(!plain || plain->size <= bytes.size(), "a plain JPEG is longer than its file");
  const auto image = decode_jpeg(file);
  check_pixels(image);
  require(!plain || (plain->height == image.height && plain->width == image.width),
          "a plain JPEG has another size than libjpeg sees");
}

void read_png(const std::string& bytes) { check_pixels(decode_png(encoded(bytes))); }
void read_webp(const std::string& bytes) { check_pixels(decode_webp(encoded(bytes))); }

void read_exif(const std::string& bytes) {
  const auto orientation = exif_orientation(encoded(bytes).bytes);
  require(orientation >= 1 && orientation <= 8, "a picture is to be turned as EXIF cannot say");
}

void read_picture(const std::string& bytes) {
  static const InputFolder folder;
  const auto path = folder.write("picture", bytes);
  const auto enough = bytes.size() % 2 == 0 ? 0 : enough_to_resize(5);
  const auto middle = [](std::int64_t height, std::int64_t width) {
    return PixelBox{height / 3, width / 3, (height + 2) / 3, (width + 2) / 3};
  };
  const auto image =
      bytes.size() % 4 < 2 ? decode_image(path, enough) : decode_part(path, middle, enough);
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
  return {
      {"rgb", jpeg_bytes(testing::plain_image(9, 17, {200, 30, 90}), testing::JpegKind{})},
      {"grey", jpeg_bytes(testing::varied_image(3, 5, 1), testing::JpegKind{JCS_GRAYSCALE})},
      {"inks",
       jpeg_bytes(testing::plain_image(8, 8, {1, 2, 3, 4}), testing::JpegKind{JCS_CMYK, true})},
      {"progressive", jpeg_bytes(testing::plain_image(8, 8, {9, 99, 199}), progressive)},
      {"plain", jpeg_bytes(testing::varied_image(16, 17, 3), testing::JpegKind{})},
      {"plain_progressive", jpeg_bytes(testing::plain_image(17, 16, {9, 99, 199}), progressive)}};
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

std::vector<Seed> webp_seeds() {
  std::vector<Seed> seeds;
#ifdef ADAACT_WITH_WEBP
  const auto lossless = testing::webp_bytes(testing::varied_image(5, 7, 3));
  seeds = {{"lossless", lossless},
           {"lossy", testing::webp_bytes(testing::varied_image(9, 17, 3), /*lossless=*/false)},
           {"transparent", testing::webp_bytes(testing::varied_image(4, 6, 4))},
           {"with_exif",
            testing::webp_of_chunks(testing::webp_header(5, 7, 8) + lossless.substr(12) +
                                    testing::webp_chunk("EXIF", testing::exif_data(6, false)))}};
#endif
  return seeds;
}

std::vector<Seed> exif_seeds() {
  const auto jpeg = jpeg_seeds().front().bytes;
  return {{"jpeg", testing::jpeg_with_exif(jpeg, testing::exif_data(6, true))},
          {"png", testing::png_with_exif(png_seeds().front().bytes, testing::exif_data(8, false))},
          {"webp", "RIFF1234WEBPEXIF" + testing::number_bytes(38, 4, false) +
                       testing::exif_data(3, false)}};
}

std::vector<Seed> picture_seeds() {
  auto seeds = webp_seeds();
  const auto turned = exif_seeds();
  seeds.insert(seeds.end(), {{"rgb_png", png_seeds().front().bytes},
                             {"rgb_jpeg", jpeg_seeds().front().bytes},
                             {"turned_jpeg", turned[0].bytes},
                             {"turned_png", turned[1].bytes}});
  return seeds;
}

}  // namespace

FuzzTarget jpeg_target() { return {"jpeg", read_jpeg, jpeg_seeds, nullptr, kOfPictures}; }
FuzzTarget png_target() { return {"png", read_png, png_seeds, mutate_png, kOfPictures}; }
FuzzTarget webp_target() { return {"webp", read_webp, webp_seeds, nullptr, kOfWebp}; }
FuzzTarget exif_target() { return {"exif", read_exif, exif_seeds}; }
FuzzTarget picture_target() { return {"picture", read_picture, picture_seeds, nullptr, kOfWebp}; }

}  // namespace adaact::fuzz
