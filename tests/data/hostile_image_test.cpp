#include <algorithm>
#include <array>

#include <gtest/gtest.h>
#include <zlib.h>

#include "data/decode_image.h"
#include "data/image_files.h"
#include "data/record_files.h"
#include "data/webp_files.h"
#include "support/errors.h"
#include "support/odd_files.h"
#include "support/peak_memory.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::decode_image;
using adaact::kMostPixels;
using adaact::kMostScans;
namespace fs = std::filesystem;

constexpr std::int64_t kMegabyte = 1'000'000;

void append_uint32(Bytes& bytes, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<std::uint8_t>(number >> shift));
  }
}

Bytes png_chunk(const std::string& type, const Bytes& content) {
  Bytes chunk;
  append_uint32(chunk, static_cast<std::uint32_t>(content.size()));
  chunk.insert(chunk.end(), type.begin(), type.end());
  chunk.insert(chunk.end(), content.begin(), content.end());
  append_uint32(chunk, static_cast<std::uint32_t>(
                           crc32(0, chunk.data() + 4, static_cast<uInt>(chunk.size() - 4))));
  return chunk;
}

Bytes deflated(std::size_t count, std::uint8_t byte) {
  const Bytes content(count, byte);
  auto size = compressBound(count);
  Bytes packed(size);
  compress(packed.data(), &size, content.data(), count);
  packed.resize(size);
  return packed;
}

class HostileImage : public ::testing::Test {
 protected:
  fs::path jpeg() const { return folder_.path() / "image.jpg"; }
  fs::path png() const { return folder_.path() / "image.png"; }
  static std::string error(const fs::path& path) {
    return error_of([&] { decode_image(path); });
  }

  /// Puts chunks behind the header of a PNG file.
  void insert_into_png(const Bytes& chunks) const {
    auto bytes = read_bytes(png());
    constexpr std::ptrdiff_t kEndOfHeader = 8 + 25;
    bytes.insert(bytes.begin() + kEndOfHeader, chunks.begin(), chunks.end());
    write_file(png(), bytes);
  }

  TemporaryFolder folder_;
};

TEST_F(HostileImage, TextsAndProfilesInAPngAreNotUnpacked) {
  const auto raw = varied_image(4, 4, 3);
  write_png(png(), raw);
  constexpr std::size_t kUnpacked = 7'900'000;  // libpng takes up to 8 MB for a chunk
  auto content = deflated(kUnpacked, 'a');
  content.insert(content.begin(), {'a', 0, 0});  // the keyword and the method
  const auto text = png_chunk("zTXt", content);
  Bytes chunks = png_chunk("iCCP", content);
  for (int i = 0; i < 50; ++i) chunks.insert(chunks.end(), text.begin(), text.end());
  insert_into_png(chunks);
  std::vector<std::uint8_t> pixels;
  EXPECT_LT(peak_memory_of([&] { pixels = decode_image(png()).pixels; }), 50 * kMegabyte);
  EXPECT_EQ(pixels, raw.samples);
}

TEST_F(HostileImage, APngThatAnnouncesMoreThanItsBytesCanHoldIsRefusedAtOnce) {
  Bytes bytes{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  Bytes header;
  append_uint32(header, 10'000);
  append_uint32(header, 10'000);
  header.insert(header.end(), {8, PNG_COLOR_TYPE_RGB, 0, 0, 0});
  for (const auto& chunk :
       {png_chunk("IHDR", header), png_chunk("IDAT", deflated(30'001, 0)), png_chunk("IEND", {})}) {
    bytes.insert(bytes.end(), chunk.begin(), chunk.end());
  }
  write_file(png(), bytes);
  std::string message;
  EXPECT_LT(peak_memory_of([&] { message = error(png()); }), 50 * kMegabyte);
  EXPECT_TRUE(contains(message, png().string() + " is truncated or no image: 10000x10000 pixels"));
}

TEST_F(HostileImage, AJpegThatAnnouncesMoreThanItsBytesCanHoldIsRefusedAtOnce) {
  for (const bool progressive : {false, true}) {
    write_jpeg(jpeg(), plain_image(16, 16, {200, 100, 30}), {JCS_RGB, false, progressive});
    auto bytes = read_bytes(jpeg());
    const std::array<std::uint8_t, 2> frame{0xFF,
                                            static_cast<std::uint8_t>(progressive ? 0xC2 : 0xC0)};
    const auto at = std::search(bytes.begin(), bytes.end(), frame.begin(), frame.end());
    ASSERT_NE(at, bytes.end());
    for (const auto place : {5, 7}) {  // height and width: 9,984 each
      at[place] = 0x27;
      at[place + 1] = 0x00;
    }
    write_file(jpeg(), bytes);
    std::string message;
    EXPECT_LT(peak_memory_of([&] { message = error(jpeg()); }), 50 * kMegabyte);
    EXPECT_TRUE(contains(message, jpeg().string() + " is truncated or no image: 9984x9984 pixels"));
  }
}

/// A progressive JPEG whose last scan is there so many times more.
TEST_F(HostileImage, AJpegOfManyScansIsRefused) {
  const std::array<std::uint8_t, 2> scan{0xFF, 0xDA};
  const auto write = [&](int more) {
    write_jpeg(jpeg(), varied_image(40, 40, 3), {JCS_RGB, false, /*progressive=*/true});
    auto bytes = read_bytes(jpeg());
    const auto last = std::find_end(bytes.begin(), bytes.end(), scan.begin(), scan.end());
    const Bytes again(last, bytes.end() - 2);
    bytes.resize(bytes.size() - 2);  // the end of the image
    for (int i = 0; i < more; ++i) bytes.insert(bytes.end(), again.begin(), again.end());
    bytes.insert(bytes.end(), {0xFF, 0xD9});
    write_file(jpeg(), bytes);
  };
  write(20);
  EXPECT_EQ(decode_image(jpeg()).height, 40);
  write(300);
  EXPECT_TRUE(contains(error(jpeg()), jpeg().string() + " cannot be decoded at byte "));
  EXPECT_TRUE(contains(error(jpeg()), "it has more than " + std::to_string(kMostScans) + " scans"));
}

TEST_F(HostileImage, MorePixelsThanAnyPhotographHasAreRefused) {
  // All of it is there, one bit a pixel.
  constexpr int kSide = 12'000;
  write_png(png(), {kSide, kSide, 1, Bytes(std::size_t{kSide} * kSide / 8)},
            {PNG_COLOR_TYPE_GRAY, 1, false, {}});
  std::string message;
  EXPECT_LT(peak_memory_of([&] { message = error(png()); }), 50 * kMegabyte);
  EXPECT_TRUE(contains(message, png().string() + " has 12000x12000 pixels, expected 1 to " +
                                    std::to_string(kMostPixels)));
}

TEST_F(HostileImage, AHeaderOf20000By20000PixelsIsRefused) {
  Bytes bytes{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  Bytes header;
  append_uint32(header, 20'000);
  append_uint32(header, 20'000);
  header.insert(header.end(), {8, PNG_COLOR_TYPE_RGB, 0, 0, 0});
  for (const auto& chunk : {png_chunk("IHDR", header), png_chunk("IDAT", deflated(30'001, 0))}) {
    bytes.insert(bytes.end(), chunk.begin(), chunk.end());
  }
  write_file(png(), bytes);
  EXPECT_TRUE(contains(error(png()), png().string() + " has 20000x20000 pixels, expected 1 to "));
}

#ifdef ADAACT_WITH_WEBP
/// One colour takes no bytes in a lossless WebP, so there is no bound by which a file explains its pixels.
TEST_F(HostileImage, AWebpOfAFewBytesHasNoMorePixelsThanADrawing) {
  const auto webp = folder_.path() / "image.webp";
  // Width and height less one are the 14 bits each after the signature 2F.
  const auto announce = [&](std::uint32_t side) {
    auto bytes = webp_bytes(plain_image(16, 16, {200, 100, 30}));
    const auto at = bytes.find('\x2F');
    const auto rest = static_cast<std::uint8_t>(bytes[at + 4]) >> 4;
    const auto packed = (side - 1) | ((side - 1) << 14) | (static_cast<std::uint32_t>(rest) << 28);
    for (std::size_t i = 0; i < 4; ++i) bytes[at + 1 + i] = static_cast<char>(packed >> (8 * i));
    write_text(webp, bytes);
  };
  announce(4096);
  EXPECT_EQ(decode_image(webp).width, 4096);
  announce(4100);
  std::string message;
  EXPECT_LT(peak_memory_of([&] { message = error(webp); }), 50 * kMegabyte);
  EXPECT_TRUE(contains(message, webp.string() + " is truncated or no image: 4100x4100 pixels"));
  announce(16'383);
  EXPECT_LT(peak_memory_of([&] { message = error(webp); }), 50 * kMegabyte);
  EXPECT_TRUE(contains(message, webp.string() + " has 16383x16383 pixels, expected 1 to "));
}
#endif

TEST_F(HostileImage, APhotographOf64MegapixelsIsRead) {
  constexpr int kSide = 8192;
  write_jpeg(jpeg(), {kSide, kSide, 1, Bytes(std::size_t{kSide} * kSide, 77)}, {JCS_GRAYSCALE});
  const auto image = decode_image(jpeg());
  EXPECT_EQ(image.width, kSide);
  EXPECT_NEAR(image.pixels.back(), 77, 1);
}

TEST_F(HostileImage, WhatIsNoFileIsNotReadFrom) {
  EXPECT_TRUE(contains(error(make_pipe(png())), png().string() + " is a pipe"));
  EXPECT_TRUE(contains(error("/dev/zero"), "/dev/zero is a device"));
}

}  // namespace
