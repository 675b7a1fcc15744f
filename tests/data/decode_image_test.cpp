#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "data/decode_image.h"
#include "data/image_files.h"
#include "data/record_files.h"
#include "data/webp_files.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::decode_image;
namespace fs = std::filesystem;

using Colour = std::vector<std::uint8_t>;

void expect_colour(const std::vector<std::uint8_t>& rgb, const Colour& expected, int tolerance) {
  for (std::size_t i = 0; i < rgb.size(); ++i) {
    ASSERT_NEAR(rgb[i], expected[i % 3], tolerance) << "byte " << i;
  }
}

class Decode : public ::testing::Test {
 protected:
  fs::path jpeg() const { return folder.path() / "image.jpg"; }
  fs::path png() const { return folder.path() / "image.png"; }
  fs::path webp() const { return folder.path() / "image.webp"; }
  static std::string error(const fs::path& path) {
    return error_of([&] { decode_image(path); });
  }

  TemporaryFolder folder;
};

TEST_F(Decode, ColourJpeg) {
  for (const bool progressive : {false, true}) {
    write_jpeg(jpeg(), plain_image(9, 20, {200, 100, 30}), {JCS_RGB, false, progressive});
    const auto image = decode_image(jpeg());
    EXPECT_EQ(image.height, 9);
    EXPECT_EQ(image.width, 20);
    expect_colour(image.pixels, {200, 100, 30}, 2);
  }
}

TEST_F(Decode, GreyJpeg) {
  write_jpeg(jpeg(), plain_image(8, 8, {77}), {JCS_GRAYSCALE});
  expect_colour(decode_image(jpeg()).pixels, {77, 77, 77}, 1);
}

TEST_F(Decode, CmykJpeg) {
  // 20 % cyan, no magenta, all yellow, half black.
  write_jpeg(jpeg(), plain_image(8, 8, {51, 0, 255, 128}), {JCS_CMYK, false});
  expect_colour(decode_image(jpeg()).pixels, {102, 127, 0}, 2);
  write_jpeg(jpeg(), plain_image(8, 8, {204, 255, 0, 127}), {JCS_CMYK, true});
  expect_colour(decode_image(jpeg()).pixels, {102, 127, 0}, 2);
}

TEST_F(Decode, ColourPngIsExact) {
  for (const bool interlaced : {false, true}) {
    const auto raw = varied_image(11, 13, 3);
    write_png(png(), raw, {PNG_COLOR_TYPE_RGB, 8, interlaced, {}});
    const auto image = decode_image(png());
    EXPECT_EQ(image.height, 11);
    EXPECT_EQ(image.width, 13);
    EXPECT_EQ(image.pixels, raw.samples);
  }
}

TEST_F(Decode, OtherPngsBecomeRgb) {
  write_png(png(), plain_image(3, 5, {9, 8, 7, 128}), {PNG_COLOR_TYPE_RGB_ALPHA, 8, false, {}});
  expect_colour(decode_image(png()).pixels, {9, 8, 7}, 0);
  write_png(png(), plain_image(3, 5, {66}), {PNG_COLOR_TYPE_GRAY, 8, false, {}});
  expect_colour(decode_image(png()).pixels, {66, 66, 66}, 0);
  write_png(png(), plain_image(3, 5, {66, 0}), {PNG_COLOR_TYPE_GRAY_ALPHA, 8, false, {}});
  expect_colour(decode_image(png()).pixels, {66, 66, 66}, 0);
  // One bit a pixel, eight pixels a byte.
  write_png(png(), {2, 8, 1, {0xFF, 0xFF}}, {PNG_COLOR_TYPE_GRAY, 1, false, {}});
  expect_colour(decode_image(png()).pixels, {255, 255, 255}, 0);
  write_png(png(), plain_image(3, 5, {1}),
            {PNG_COLOR_TYPE_PALETTE, 8, false, {{1, 2, 3}, {40, 50, 60}}});
  expect_colour(decode_image(png()).pixels, {40, 50, 60}, 0);
}

TEST_F(Decode, SixteenBitsBecomeEight) {
  auto image = plain_image(2, 2, {200, 200, 100, 100, 0, 0});  // two bytes a sample
  image.channels = 3;
  write_png(png(), image, {PNG_COLOR_TYPE_RGB, 16, false, {}});
  expect_colour(decode_image(png()).pixels, {200, 100, 0}, 0);
}

TEST_F(Decode, ALargeJpegMayComeOutSmaller) {
  write_jpeg(jpeg(), plain_image(250, 400, {200, 100, 30}));
  const auto side = [&](std::int64_t enough) { return decode_image(jpeg(), enough).height; };
  EXPECT_EQ(side(0), 250);
  EXPECT_EQ(side(126), 250);
  EXPECT_EQ(side(125), 125);
  EXPECT_EQ(side(62), 63);
  EXPECT_EQ(side(31), 32);
  EXPECT_EQ(side(1), 32);
  const auto image = decode_image(jpeg(), 31);
  EXPECT_EQ(image.width, 50);
  expect_colour(image.pixels, {200, 100, 30}, 2);
}

TEST_F(Decode, OnePixelIsAnImage) {
  write_jpeg(jpeg(), plain_image(1, 1, {200, 100, 30}));
  expect_colour(decode_image(jpeg()).pixels, {200, 100, 30}, 2);
  write_png(png(), plain_image(1, 1, {200, 100, 30}));
  expect_colour(decode_image(png()).pixels, {200, 100, 30}, 0);
}

#ifdef ADAACT_WITH_WEBP
TEST_F(Decode, Webp) {
  const auto raw = varied_image(11, 13, 3);
  write_webp(webp(), raw);
  const auto image = decode_image(webp());
  EXPECT_EQ(image.height, 11);
  EXPECT_EQ(image.width, 13);
  EXPECT_EQ(image.pixels, raw.samples);
  write_webp(webp(), plain_image(9, 20, {200, 100, 30}), /*lossless=*/false);
  expect_colour(decode_image(webp()).pixels, {200, 100, 30}, 4);
  write_webp(webp(), plain_image(3, 5, {9, 8, 7, 128}));
  expect_colour(decode_image(webp()).pixels, {9, 8, 7}, 0);
  write_webp(webp(), plain_image(1, 1, {9, 8, 7}));
  expect_colour(decode_image(webp()).pixels, {9, 8, 7}, 0);
}

TEST_F(Decode, DamagedWebpsAreErrors) {
  for (const bool lossless : {true, false}) {
    for (const double part : {0.02, 0.5, 0.95}) {
      write_webp(webp(), varied_image(40, 40, 3), lossless);
      cut(webp(), part);
      EXPECT_TRUE(contains(error(webp()), webp().string())) << lossless << part;
    }
  }
  write_webp(webp(), varied_image(40, 40, 3));
  cut(webp(), 0.5);
  EXPECT_TRUE(contains(error(webp()), webp().string() + " cannot be decoded: the file ends early"));
}

TEST_F(Decode, AnAnimatedWebpIsAnError) {
  const auto picture = webp_bytes(varied_image(4, 4, 3)).substr(12);
  const std::string place(12, '\0');  // at 0, 0; one pixel by one, for no time
  const auto frame = webp_chunk("ANMF", place + std::string(4, '\0') + picture);
  write_text(webp(), webp_of_chunks(webp_header(4, 4, 2) +
                                    webp_chunk("ANIM", std::string(6, '\0')) + frame + frame));
  EXPECT_TRUE(contains(error(webp()), webp().string() + " is an animated WebP, expected one"));
}
#else
TEST_F(Decode, WithoutLibwebpAWebpSaysSo) {
  write_text(webp(), "RIFF1234WEBPVP8L");
  EXPECT_TRUE(contains(error(webp()), "which this build cannot read: it was made without libwebp"));
}
#endif

TEST_F(Decode, TheContentDecidesNotTheName) {
  write_png(jpeg(), plain_image(3, 5, {9, 8, 7}));
  expect_colour(decode_image(jpeg()).pixels, {9, 8, 7}, 0);
}

TEST_F(Decode, DamagedImagesAreErrors) {
  write_jpeg(jpeg(), varied_image(40, 40, 3));
  cut(jpeg(), 0.5);
  EXPECT_TRUE(contains(error(jpeg()), jpeg().string() + " cannot be decoded at byte "));
  EXPECT_TRUE(contains(error(jpeg()), "remature end of"));  // in either of libjpeg's two messages
  write_jpeg(jpeg(), varied_image(40, 40, 3));
  cut(jpeg(), 0.02);
  EXPECT_TRUE(contains(error(jpeg()), jpeg().string() + " cannot be decoded at byte "));

  write_png(png(), varied_image(40, 40, 3));
  const auto png_size = fs::file_size(png()) / 2;
  cut(png(), 0.5);
  EXPECT_TRUE(contains(error(png()), png().string() + " cannot be decoded at byte " +
                                         std::to_string(png_size) + ": the file ends early"));
  write_png(png(), varied_image(40, 40, 3));
  auto bytes = read_bytes(png());
  bytes[60] ^= 0xFF;
  write_file(png(), bytes);
  EXPECT_TRUE(contains(error(png()), png().string() + " cannot be decoded at byte "));
}

#ifdef C_ARITH_CODING_SUPPORTED
/// Arithmetic codes run on behind a damaged byte; what they cannot mean ends the image in the grey of zeros.
TEST_F(Decode, ADamagedJpegOfArithmeticCodesIsAnError) {
  JpegKind kind;
  kind.arithmetic = true;
  write_jpeg(jpeg(), varied_image(40, 40, 3), kind);
  const auto sound = read_bytes(jpeg());
  EXPECT_EQ(decode_image(jpeg()).height, 40);
  const auto is_bad_code = [&](std::size_t at) {
    auto bytes = sound;
    bytes[at] = 0x55;
    write_file(jpeg(), bytes);
    try {
      decode_image(jpeg());
      return false;
    } catch (const c10::Error& error) {
      return std::string(error.what()).find("bad arithmetic code") != std::string::npos;
    }
  };
  bool found = false;  // not every damage makes a code that cannot be
  for (auto at = sound.size() / 2; at < sound.size() - 2 && !found; ++at) found = is_bad_code(at);
  EXPECT_TRUE(found);
}
#endif

TEST_F(Decode, HugeImagesAreErrors) {
  write_png(png(), varied_image(4, 4, 3));
  // The width is at byte 16; its checksum, from byte 29, must fit.
  auto bytes = read_bytes(png());
  bytes[17] = 0x0F;
  bytes[21] = 0x0F;
  const auto checksum = crc32(0, bytes.data() + 12, 17);
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[29 + i] = static_cast<std::uint8_t>(checksum >> (24 - 8 * i));
  }
  write_file(png(), bytes);
  EXPECT_TRUE(contains(error(png()), png().string() + " has 983044x983044 pixels, expected 1 to "));
}

TEST_F(Decode, WhatIsNoImageIsAnError) {
  write_text(jpeg(), "GIF89a");
  EXPECT_TRUE(contains(
      error(jpeg()),
      jpeg().string() + " is neither JPEG nor PNG nor WebP: it has 47 49 46 38 at byte 0"));
  write_text(jpeg(), "");
  EXPECT_TRUE(contains(error(jpeg()), jpeg().string() + " is empty"));
  EXPECT_TRUE(contains(error(folder.path() / "no.jpg"), "no.jpg cannot be opened"));
}

}  // namespace
