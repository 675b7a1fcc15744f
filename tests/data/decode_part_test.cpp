// Parts of image files, which must be equal to parts of the whole images.

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "data/decode_image.h"
#include "data/exif_files.h"
#include "data/image_files.h"
#include "data/record_files.h"
#include "data/webp_files.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::decode_image;
using adaact::decode_part;
using adaact::PixelBox;
using adaact::RgbImage;
namespace fs = std::filesystem;

/// Smooth enough to be a photograph, and different everywhere.
RawImage photograph(int height, int width, int channels = 3) {
  RawImage image{height, width, channels, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const auto wave = std::sin(0.31 * x + c) * std::cos(0.17 * y - c) + 0.2 * ((x * y) % 3);
        image.samples.push_back(static_cast<std::uint8_t>(128 + 70 * wave));
      }
    }
  }
  return image;
}

RgbImage part_of(const RgbImage& image, const PixelBox& box) {
  RgbImage part{box.height, box.width, {}};
  for (auto y = box.top; y < box.top + box.height; ++y) {
    const auto* row = image.pixels.data() + 3 * (y * image.width + box.left);
    part.pixels.insert(part.pixels.end(), row, row + 3 * box.width);
  }
  return part;
}

adaact::ChooseBox chosen(const PixelBox& box) {
  return [box](std::int64_t, std::int64_t) { return box; };
}

/// Corners, borders, single pixels and parts that begin and end anywhere in a block.
std::vector<PixelBox> boxes_in(std::int64_t height, std::int64_t width) {
  std::vector<PixelBox> boxes{{0, 0, height, width},
                              {0, 0, 1, 1},
                              {height - 1, width - 1, 1, 1},
                              {height / 2, 0, 1, width},
                              {0, width / 2, height, 1}};
  std::uint32_t state = 1;
  const auto below = [&](std::int64_t bound) {
    state = state * 1664525U + 1013904223U;
    return static_cast<std::int64_t>(state >> 8) % bound;
  };
  for (int i = 0; i < 60; ++i) {
    PixelBox box{0, 0, 1 + below(height), 1 + below(width)};
    box.top = below(height - box.height + 1);
    box.left = below(width - box.width + 1);
    boxes.push_back(box);
  }
  return boxes;
}

class DecodePart : public ::testing::Test {
 protected:
  fs::path file() const { return folder_.path() / "picture"; }

  void expect_parts_of_the_whole() const {
    const auto whole = decode_image(file());
    for (const auto& box : boxes_in(whole.height, whole.width)) {
      const auto part = decode_part(file(), chosen(box));
      ASSERT_EQ(part.height, box.height);
      ASSERT_EQ(part.width, box.width);
      ASSERT_EQ(part.pixels, part_of(whole, box).pixels)
          << box.height << 'x' << box.width << " at " << box.top << ", " << box.left;
    }
  }

  std::string error_of_part(const PixelBox& box) const {
    return error_of([&] { decode_part(file(), chosen(box)); });
  }

  std::string bytes() const {
    const auto all = read_bytes(file());
    return {all.begin(), all.end()};
  }

  TemporaryFolder folder_;
};

class DecodePartOfJpeg : public DecodePart,
                         public ::testing::WithParamInterface<std::tuple<int, int, bool>> {};

TEST_P(DecodePartOfJpeg, IsThatOfTheWhole) {
  const auto [columns, rows, progressive] = GetParam();
  for (const auto& [height, width] : {std::pair{75, 101}, std::pair{64, 96}, std::pair{5, 70}}) {
    write_jpeg(file(), photograph(height, width), {JCS_RGB, false, progressive, columns, rows, 90});
    expect_parts_of_the_whole();
  }
}

INSTANTIATE_TEST_SUITE_P(Sampling, DecodePartOfJpeg,
                         ::testing::Combine(::testing::Values(1, 2, 4), ::testing::Values(1, 2),
                                            ::testing::Bool()));

TEST_F(DecodePart, OfAVeryLongImage) {
  for (const auto& [height, width] : {std::pair{1, 1}, std::pair{1, 900}, std::pair{900, 1}}) {
    write_jpeg(file(), photograph(height, width));
    expect_parts_of_the_whole();
    write_png(file(), photograph(height, width));
    expect_parts_of_the_whole();
  }
}

TEST_F(DecodePart, OfAGreyJpeg) {
  write_jpeg(file(), photograph(61, 90, 1), {JCS_GRAYSCALE});
  expect_parts_of_the_whole();
}

TEST_F(DecodePart, OfACmykJpeg) {
  for (const bool adobe : {false, true}) {
    write_jpeg(file(), photograph(61, 90, 4), {JCS_CMYK, adobe});
    expect_parts_of_the_whole();
  }
}

TEST_F(DecodePart, OfAPng) {
  for (const bool interlaced : {false, true}) {
    write_png(file(), photograph(31, 45), {PNG_COLOR_TYPE_RGB, 8, interlaced, {}});
    expect_parts_of_the_whole();
  }
}

#ifdef ADAACT_WITH_WEBP
TEST_F(DecodePart, OfAWebp) {
  write_webp(file(), photograph(31, 45), /*lossless=*/false);
  expect_parts_of_the_whole();
}
#endif

TEST_F(DecodePart, OfATurnedPicture) {
  for (std::size_t orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    write_jpeg(file(), photograph(40, 57));
    write_text(file(), jpeg_with_exif(bytes(), exif_data(orientation, true)));
    expect_parts_of_the_whole();
    write_png(file(), photograph(20, 27));
    write_text(file(), png_with_exif(bytes(), exif_data(orientation, false)));
    expect_parts_of_the_whole();
  }
}

TEST_F(DecodePart, IsToldTheSizeOfTheTurnedWhole) {
  write_jpeg(file(), photograph(40, 57));
  write_text(file(), jpeg_with_exif(bytes(), exif_data(6, true)));
  const auto part = decode_part(file(), [](std::int64_t height, std::int64_t width) {
    EXPECT_EQ(height, 57);
    EXPECT_EQ(width, 40);
    return PixelBox{50, 0, 7, 40};
  });
  EXPECT_EQ(part.height, 7);
  EXPECT_EQ(part.width, 40);
}

TEST_F(DecodePart, ALargePartOfAJpegMayComeOutSmaller) {
  write_jpeg(file(), photograph(250, 400));
  const auto side = [&](std::int64_t height, std::int64_t enough) {
    return decode_part(file(), chosen({10, 20, height, 200}), enough).height;
  };
  EXPECT_EQ(side(200, 0), 200);
  EXPECT_EQ(side(200, 101), 200);
  EXPECT_EQ(side(200, 100), 100);
  EXPECT_EQ(side(199, 100), 199);
  EXPECT_EQ(side(200, 50), 50);
  EXPECT_EQ(side(200, 1), 25);
}

TEST_F(DecodePart, OfASmallerImageIsThatOfAllOfIt) {
  for (const auto& [columns, rows] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{2, 2}}) {
    write_jpeg(file(), photograph(150, 203), {JCS_RGB, false, false, columns, rows, 90});
    const auto half = decode_image(file(), 75);
    ASSERT_EQ(half.height, 75);
    for (const auto& box : boxes_in(half.height, half.width - 1)) {
      const PixelBox twice{2 * box.top, 2 * box.left, 2 * box.height, 2 * box.width};
      const auto part = decode_part(file(), chosen(twice), std::min(box.height, box.width));
      ASSERT_EQ(part.pixels, part_of(half, box).pixels)
          << box.height << 'x' << box.width << " at " << box.top << ", " << box.left;
    }
  }
}

/// What lies before the last row of the part is looked at, what comes after it is not.
TEST_F(DecodePart, OfATruncatedJpegIsAnErrorWhereItIsMissing) {
  write_jpeg(file(), photograph(200, 200));
  cut(file(), 0.5);
  EXPECT_TRUE(
      contains(error_of_part({0, 0, 200, 200}), file().string() + " cannot be decoded at byte "));
  EXPECT_TRUE(
      contains(error_of_part({150, 50, 20, 20}), file().string() + " cannot be decoded at byte "));
  EXPECT_NO_THROW(decode_part(file(), chosen({0, 0, 50, 200})));
  EXPECT_NO_THROW(decode_part(file(), chosen({30, 50, 20, 20})));
}

TEST_F(DecodePart, OfADamagedProgressiveJpegIsAnErrorAnywhere) {
  write_jpeg(file(), photograph(200, 200), {JCS_RGB, false, /*progressive=*/true});
  cut(file(), 0.5);
  EXPECT_TRUE(
      contains(error_of_part({0, 0, 1, 1}), file().string() + " cannot be decoded at byte "));
}

TEST_F(DecodePart, MustLieInside) {
  write_png(file(), photograph(8, 9));
  for (const auto& box : {PixelBox{0, 0, 9, 9}, PixelBox{0, 0, 8, 10}, PixelBox{-1, 0, 2, 2},
                          PixelBox{0, 5, 2, 5}, PixelBox{0, 0, 0, 2}}) {
    EXPECT_TRUE(contains(error_of_part(box), "expected a part of 8x9"));
  }
}

}  // namespace
