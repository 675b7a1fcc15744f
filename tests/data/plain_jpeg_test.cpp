// Which JPEGs are left to another decoder than libjpeg.

#include "data/plain_jpeg.h"

#include <optional>
#include <string>
#include <tuple>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "data/decode_image.h"
#include "data/exif_files.h"
#include "data/image_files.h"
#include "data/record_files.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::plain_jpeg;
using adaact::PlainJpeg;

std::optional<PlainJpeg> plain(const std::string& file) {
  return plain_jpeg(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
}

/// Where the segment of this marker begins, of a file of libjpeg's.
std::size_t segment_of(const std::string& file, char marker) {
  std::size_t at = 2;
  while (file.at(at + 1) != marker) {
    const auto high = static_cast<std::uint8_t>(file.at(at + 2));
    const auto low = static_cast<std::uint8_t>(file.at(at + 3));
    at += 2U + 256U * high + low;
  }
  return at;
}

std::string without_segment(const std::string& file, char marker) {
  const auto at = segment_of(file, marker);
  const auto high = static_cast<std::uint8_t>(file[at + 2]);
  const auto low = static_cast<std::uint8_t>(file[at + 3]);
  return file.substr(0, at) + file.substr(at + 2U + 256U * high + low);
}

std::string with_segment(const std::string& file, char marker, const std::string& content) {
  return file.substr(0, 2) + '\xFF' + marker + number_bytes(content.size() + 2, 2, true) + content +
         file.substr(2);
}

/// With another byte `offset` bytes behind the beginning of a segment.
std::string changed(std::string file, char marker, std::size_t offset, char to) {
  file.at(segment_of(file, marker) + offset) = to;
  return file;
}

constexpr char kFrame = '\xC0';
constexpr char kScan = '\xDA';
constexpr char kHuffmanTable = '\xC4';
constexpr char kQuantizer = '\xDB';
constexpr char kAdobe = '\xEE';

class PlainJpegTest : public ::testing::Test {
 protected:
  std::string jpeg(int height, int width, int channels, const JpegKind& kind = {}) const {
    const auto path = folder_.path() / "picture";
    write_jpeg(path, varied_image(height, width, channels), kind);
    const auto bytes = read_bytes(path);
    return {bytes.begin(), bytes.end()};
  }
  std::string colour() const { return jpeg(16, 24, 3); }

  TemporaryFolder folder_;
};

class PlainJpegKinds : public PlainJpegTest,
                       public ::testing::WithParamInterface<std::tuple<int, int, bool>> {};

TEST_P(PlainJpegKinds, SayTheirSize) {
  const auto [columns, rows, progressive] = GetParam();
  const auto file = jpeg(33, 47, 3, {JCS_RGB, false, progressive, columns, rows, 90});
  const auto found = plain(file);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->height, 33);
  EXPECT_EQ(found->width, 47);
  EXPECT_EQ(found->size, file.size());
  EXPECT_EQ(found->progressive, progressive);
  EXPECT_EQ(found->shares_colour, columns == 2);
}

INSTANTIATE_TEST_SUITE_P(Sampling, PlainJpegKinds,
                         ::testing::Values(std::tuple{1, 1, false}, std::tuple{1, 1, true},
                                           std::tuple{2, 1, false}, std::tuple{2, 1, true},
                                           std::tuple{2, 2, false}, std::tuple{2, 2, true}));

TEST_F(PlainJpegTest, IsAGreyOne) {
  for (const bool progressive : {false, true}) {
    const auto found = plain(jpeg(33, 47, 1, {JCS_GRAYSCALE, false, progressive}));
    ASSERT_TRUE(found);
    EXPECT_FALSE(found->shares_colour);
  }
}

TEST_F(PlainJpegTest, HasNoInks) {
  EXPECT_FALSE(plain(jpeg(32, 32, 4, {JCS_CMYK, false})));
  EXPECT_FALSE(plain(jpeg(32, 32, 4, {JCS_CMYK, true})));
}

TEST_F(PlainJpegTest, HasAColourForOneTwoOrFourPixels) {
  EXPECT_FALSE(plain(jpeg(32, 32, 3, {JCS_RGB, false, false, 4, 1})));
  EXPECT_FALSE(plain(jpeg(32, 32, 3, {JCS_RGB, false, false, 1, 2})));
  EXPECT_FALSE(plain(jpeg(32, 32, 3, {JCS_RGB, false, false, 4, 2})));
}

TEST_F(PlainJpegTest, IsNotTiny) {
  EXPECT_TRUE(plain(jpeg(16, 16, 3)));
  EXPECT_FALSE(plain(jpeg(15, 16, 3)));
  EXPECT_FALSE(plain(jpeg(16, 15, 3)));
}

TEST_F(PlainJpegTest, IsComplete) {
  for (const bool progressive : {false, true}) {
    const auto whole = jpeg(16, 24, 3, {JCS_RGB, false, progressive});
    for (std::size_t size = 0; size < whole.size(); ++size) {
      ASSERT_FALSE(plain(whole.substr(0, size))) << size << " of " << whole.size() << " bytes";
    }
  }
}

TEST_F(PlainJpegTest, EndsBeforeWhateverFollows) {
  const auto file = colour();
  const auto found = plain(file + std::string(100, '\0') + file);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->size, file.size());
}

TEST_F(PlainJpegTest, MayHaveSegmentsOfPrograms) {
  const auto file = colour();
  EXPECT_TRUE(plain(jpeg_with_exif(file, exif_data(6, true) + file)));  // with a thumbnail
  EXPECT_TRUE(plain(with_segment(file, '\xFE', "a comment")));
  EXPECT_TRUE(plain(with_segment(file, kAdobe, "of another program")));
}

TEST_F(PlainJpegTest, IsYCbCrForAdobe) {
  const auto adobe = [](char transform) {
    return std::string("Adobe\0\x64\0\0\0\0", 11) + transform;
  };
  const auto grey = jpeg(16, 24, 1, {JCS_GRAYSCALE});
  EXPECT_TRUE(plain(with_segment(colour(), kAdobe, adobe(1))));
  EXPECT_FALSE(plain(with_segment(colour(), kAdobe, adobe(0))));
  EXPECT_FALSE(plain(with_segment(colour(), kAdobe, adobe(2))));
  EXPECT_TRUE(plain(with_segment(grey, kAdobe, adobe(0))));
}

TEST_F(PlainJpegTest, HasNumbersForComponents) {
  const auto letters = changed(changed(colour(), kFrame, 10, 'R'), kScan, 5, 'R');
  EXPECT_FALSE(plain(letters));
}

TEST_F(PlainJpegTest, IsBaselineOrProgressive) {
  for (const char other : {'\xC1', '\xC3', '\xC9', '\xCA'}) {  // extended, lossless, arithmetic
    EXPECT_FALSE(plain(changed(colour(), kFrame, 1, other)));
  }
}

TEST_F(PlainJpegTest, HasEightBits) { EXPECT_FALSE(plain(changed(colour(), kFrame, 4, 12))); }

TEST_F(PlainJpegTest, HasOneFrame) {
  const auto frame = colour().substr(segment_of(colour(), kFrame) + 4, 15);
  EXPECT_FALSE(plain(with_segment(colour(), kFrame, frame)));
}

TEST_F(PlainJpegTest, BringsItsTables) {
  EXPECT_FALSE(plain(without_segment(colour(), kHuffmanTable)));
  EXPECT_FALSE(plain(without_segment(colour(), kQuantizer)));
}

TEST_F(PlainJpegTest, HasCodesThatDiffer) {
  EXPECT_FALSE(plain(changed(colour(), kHuffmanTable, 5, 2)));  // codes of one bit
}

TEST_F(PlainJpegTest, HasMorePixelsThanItsBytesCanHold) {
  const auto high = changed(changed(colour(), kFrame, 5, '\x40'), kFrame, 7, '\x40');
  EXPECT_FALSE(plain(high));
}

TEST_F(PlainJpegTest, StartsAgainWhereItSaysSo) {
  auto file = colour();
  file.insert(file.size() - 2, "\xFF\xD0");
  EXPECT_FALSE(plain(file));
  EXPECT_TRUE(plain(with_segment(file, '\xDD', std::string("\0\1", 2))));
}

/// Scans of the last bits again and again.
TEST_F(PlainJpegTest, HasFewScans) {
  auto file = jpeg(16, 24, 3, {JCS_RGB, false, /*progressive=*/true});
  const std::string again("\xFF\xDA\0\x0C\3\1\0\2\0\3\0\0\0\x10\x55", 15);
  file.resize(file.size() - 2);
  EXPECT_TRUE(plain(file + again + "\xFF\xD9"));
  for (std::int64_t i = 0; i < adaact::kMostScans; ++i) file += again;
  EXPECT_FALSE(plain(file + "\xFF\xD9"));
}

/// Whatever byte of the header is another one, libjpeg does not see a picture of another size.
TEST_F(PlainJpegTest, HasTheSizeThatLibjpegSees) {
  for (const bool progressive : {false, true}) {
    const auto sound = jpeg(16, 24, 3, {JCS_RGB, false, progressive});
    const auto pixels = segment_of(sound, kScan) + 14;
    for (std::size_t at = 0; at < pixels; ++at) {
      for (const int flipped : {0x01, 0x10, 0x80, 0xFF}) {
        auto file = sound;
        file[at] = static_cast<char>(file[at] ^ flipped);
        const auto found = plain(file);
        if (!found) continue;
        adaact::RgbImage image;
        try {
          image = adaact::decode_jpeg({"changed.jpg", {file.begin(), file.end()}});
        } catch (const c10::Error&) {
          continue;  // its codes may no longer be those of pixels
        }
        ASSERT_EQ(image.height, found->height) << "byte " << at;
        ASSERT_EQ(image.width, found->width) << "byte " << at;
      }
    }
  }
}

}  // namespace
