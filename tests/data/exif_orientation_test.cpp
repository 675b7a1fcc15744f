#include "data/exif_orientation.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

#include "data/exif_files.h"
#include "data/image_files.h"
#include "data/record_files.h"
#include "data/webp_files.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::decode_image;
using adaact::exif_orientation;
using adaact::RgbImage;
namespace fs = std::filesystem;

/// What a camera stores of a picture whose rows are ab, cd and ef, by the words of the EXIF standard: for 6
/// "the 0th row is the visual right-hand side, and the 0th column is the visual top".
const std::array<std::vector<std::string>, 8> kStored{{{"ab", "cd", "ef"},
                                                       {"ba", "dc", "fe"},
                                                       {"fe", "dc", "ba"},
                                                       {"ef", "cd", "ab"},
                                                       {"ace", "bdf"},
                                                       {"bdf", "ace"},
                                                       {"fdb", "eca"},
                                                       {"eca", "fdb"}}};

std::uint8_t grey_of(char letter) { return static_cast<std::uint8_t>(20 + 40 * (letter - 'a')); }

/// Each letter is a square of a grey of its own.
RawImage picture_of(const std::vector<std::string>& rows, int side) {
  const auto height = side * static_cast<int>(rows.size());
  const auto width = side * static_cast<int>(rows[0].size());
  RawImage image{height, width, 3, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const auto letter =
          rows[static_cast<std::size_t>(y / side)][static_cast<std::size_t>(x / side)];
      image.samples.insert(image.samples.end(), 3, grey_of(letter));
    }
  }
  return image;
}

/// The letters in the middles of the squares.
std::vector<std::string> letters_of(const RgbImage& image, int side) {
  std::vector<std::string> rows;
  for (auto y = side / 2; y < image.height; y += side) {
    rows.emplace_back();
    for (auto x = side / 2; x < image.width; x += side) {
      const auto grey = image.pixels[static_cast<std::size_t>(3 * (y * image.width + x))];
      rows.back() += static_cast<char>('a' + grey / 40);
    }
  }
  return rows;
}

class Orientation : public ::testing::Test {
 protected:
  fs::path file() const { return folder_.path() / "picture"; }

  std::vector<std::string> seen(const std::string& bytes, int side) const {
    write_text(file(), bytes);
    return letters_of(decode_image(file()), side);
  }
  std::string png() const {
    write_png(file(), picture_of(kStored[0], 1));
    return text_of(file());
  }

  TemporaryFolder folder_;
};

TEST_F(Orientation, AllEightOfAJpegInBothOrders) {
  constexpr int kSide = 16;  // of whole blocks
  for (std::size_t i = 0; i < kStored.size(); ++i) {
    write_jpeg(file(), picture_of(kStored[i], kSide));
    const auto jpeg = text_of(file());
    for (const bool big_endian : {false, true}) {
      EXPECT_EQ(seen(jpeg_with_exif(jpeg, exif_data(i + 1, big_endian)), kSide), kStored[0])
          << "orientation " << i + 1;
    }
  }
}

TEST_F(Orientation, AllEightOfAPng) {
  for (std::size_t i = 0; i < kStored.size(); ++i) {
    write_png(file(), picture_of(kStored[i], 1));
    EXPECT_EQ(seen(png_with_exif(text_of(file()), exif_data(i + 1, true)), 1), kStored[0])
        << "orientation " << i + 1;
  }
}

#ifdef ADAACT_WITH_WEBP
TEST_F(Orientation, AllEightOfAWebp) {
  for (std::size_t i = 0; i < kStored.size(); ++i) {
    const auto picture = picture_of(kStored[i], 1);
    const auto simple = webp_bytes(picture);
    for (const auto& mark : {std::string(), std::string("Exif\0\0", 6)}) {
      const auto bytes =
          webp_of_chunks(webp_header(picture.height, picture.width, 8) + simple.substr(12) +
                         webp_chunk("EXIF", mark + exif_data(i + 1, false)));
      EXPECT_EQ(seen(bytes, 1), kStored[0]) << "orientation " << i + 1;
    }
  }
}
#endif

TEST_F(Orientation, AJpegThatIsDecodedSmallerIsTurnedToo) {
  constexpr int kSide = 64;
  write_jpeg(file(), picture_of(kStored[5], kSide));
  write_text(file(), jpeg_with_exif(text_of(file()), exif_data(6, true)));
  const auto image = decode_image(file(), /*enough=*/16);
  EXPECT_EQ(image.height, 3 * kSide / 8);
  EXPECT_EQ(letters_of(image, kSide / 8), kStored[0]);
}

TEST_F(Orientation, WhatMakesNoSenseTurnsNothing) {
  for (const std::size_t value : {0, 9, 255, 65535}) {
    EXPECT_EQ(seen(png_with_exif(png(), exif_data(value, true)), 1), kStored[0]);
  }
  auto of_other_type = exif_data(6, false);
  of_other_type[8 + 2 + 12 + 2] = 7;
  EXPECT_EQ(seen(png_with_exif(png(), of_other_type), 1), kStored[0]);
  auto of_no_order = exif_data(6, false);
  of_no_order[0] = 'X';
  EXPECT_EQ(seen(png_with_exif(png(), of_no_order), 1), kStored[0]);
  auto list_beyond = exif_data(6, false);
  list_beyond[7] = '\xFF';
  EXPECT_EQ(seen(png_with_exif(png(), list_beyond), 1), kStored[0]);
}

/// Every beginning of such data, and every byte of them changed, is read without harm: AddressSanitizer looks.
TEST_F(Orientation, NothingIsReadBeyondTheEnd) {
  write_jpeg(file(), plain_image(1, 1, {9, 9, 9}));
  const auto jpeg = jpeg_with_exif(text_of(file()), exif_data(6, false));
  const auto whole_png = png_with_exif(png(), exif_data(6, true));
  for (const auto& file :
       {jpeg, whole_png, "RIFF1234WEBPEXIF" + number_bytes(38, 4, false) + exif_data(6, false)}) {
    EXPECT_EQ(exif_orientation({file.begin(), file.end()}), 6);
    for (std::size_t length = 0; length < file.size(); ++length) {
      const auto turned =
          exif_orientation({file.begin(), file.begin() + static_cast<long>(length)});
      EXPECT_TRUE(turned == 1 || turned == 6);
    }
    for (std::size_t at = 0; at < file.size(); ++at) {
      for (const char byte : {'\0', '\x7F', '\xFF'}) {
        auto changed = file;
        changed[at] = byte;
        const auto turned = exif_orientation({changed.begin(), changed.end()});
        EXPECT_TRUE(turned >= 1 && turned <= 8);
      }
    }
  }
}

}  // namespace
