// JPEGs decoded on a GPU against libjpeg's pixels. Skips, visibly, where there is no GPU or no nvJPEG.

#include "data/jpeg_batch_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "data/decode_image.h"
#include "data/image_files.h"
#include "data/record_files.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::JpegBatchDecoder;
using adaact::JpegPart;
using adaact::PixelBox;

/// A sample's difference from libjpeg's, in the mean over a part of these pictures. Both round the inverse transform and
/// the conversion to RGB, each in its way: libjpeg with numbers of its other kind differs from itself by 0.04. Colours that
/// are spread are rounded once more; if they were repeated instead, the difference would be 4.5, and that of a picture
/// displaced by a pixel is 10.
constexpr double kColourForEach = 0.6;
constexpr double kSharedColour = 1.2;

struct Kind {
  const char* name;
  int channels;
  JpegKind jpeg;
  double tolerance;
};

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const bool progressive : {false, true}) {
    const auto colour = [&](int columns, int rows) {
      return JpegKind{JCS_RGB, false, progressive, columns, rows, 92};
    };
    all.push_back({"4:4:4", 3, colour(1, 1), kColourForEach});
    all.push_back({"4:2:2", 3, colour(2, 1), kSharedColour});
    all.push_back({"4:2:0", 3, colour(2, 2), kSharedColour});
    all.push_back({"grey", 1, {JCS_GRAYSCALE, false, progressive, 1, 1, 92}, kColourForEach});
  }
  return all;
}

/// Slopes of luma and colours everywhere, so that a displaced pixel is another one.
RawImage waves(int height, int width, int channels) {
  RawImage image{height, width, channels, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const auto wave = std::sin(0.37 * x + 0.11 * y + 1.1 * c) + std::cos(0.29 * y - 0.07 * x);
        image.samples.push_back(static_cast<std::uint8_t>(128 + 55 * wave));
      }
    }
  }
  return image;
}

std::vector<PixelBox> boxes_in(std::int64_t height, std::int64_t width) {
  std::vector<PixelBox> boxes{{0, 0, height, width},
                              {0, 0, height / 2, width / 2},
                              {height / 2, width / 2, height - height / 2, width - width / 2},
                              {height / 3, 0, height / 3, width},
                              {0, width / 3, height, width / 3}};
  for (std::int64_t i = 1; i < 9; ++i) boxes.push_back({i, 9 - i, height - 9 - i, width - 10});
  return boxes;
}

class JpegBatch : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    if (!adaact::has_nvjpeg()) GTEST_SKIP() << "a build without nvJPEG";
    decoder_ = std::make_unique<JpegBatchDecoder>(torch::kCUDA, /*try_hardware=*/GetParam());
    if (GetParam() && !decoder_->in_hardware()) GTEST_SKIP() << "no decoder in hardware";
  }

  const Bytes& file(const Kind& kind, int height, int width) {
    const auto path = folder_.path() / "picture.jpg";
    write_jpeg(path, waves(height, width, kind.channels), kind.jpeg);
    files_.push_back(read_bytes(path));
    return files_.back();
  }

  /// Adds a part, whose pixels come a byte after those before.
  void add(const Bytes& file, const PixelBox& box, double tolerance) {
    const auto jpeg = adaact::plain_jpeg(file.data(), file.size());
    ASSERT_TRUE(jpeg);
    parts_.push_back({file.data(), *jpeg, box, size_});
    tolerances_.push_back(tolerance);
    size_ += 3 * box.height * box.width + 1;
  }

  torch::Tensor empty_pixels() const {
    return torch::full({size_}, kUntouched, torch::dtype(torch::kByte).device(torch::kCUDA));
  }

  static std::vector<std::uint8_t> expected(const JpegPart& part, const PixelBox& box) {
    const adaact::EncodedImage file{"part.jpg", {part.bytes, part.bytes + part.jpeg.size}};
    return adaact::decode_part_of_jpeg(
               file, [&](auto, auto) { return box; }, /*enough=*/0)
        .pixels;
  }

  /// The mean difference of a part's pixels from those of a box.
  static double difference(const JpegPart& part, const PixelBox& box, const torch::Tensor& pixels) {
    const auto wanted = expected(part, box);
    const auto* found = pixels.data_ptr<std::uint8_t>() + part.output_offset;
    double sum = 0.0;
    for (std::size_t i = 0; i < wanted.size(); ++i) sum += std::abs(found[i] - wanted[i]);
    return sum / static_cast<double>(wanted.size());
  }

  void expect_part(std::size_t i, const torch::Tensor& pixels) const {
    const auto& part = parts_[i];
    const auto& box = part.box;
    SCOPED_TRACE(std::to_string(i) + ": " + std::to_string(box.height) + "x" +
                 std::to_string(box.width) + " at " + std::to_string(box.top) + ", " +
                 std::to_string(box.left));
    EXPECT_LE(difference(part, box, pixels), tolerances_[i]);
    for (const auto& [down, right] : {std::pair{-1, 0}, {1, 0}, {0, -1}, {0, 1}}) {
      const PixelBox displaced{box.top + down, box.left + right, box.height, box.width};
      const bool inside = displaced.top >= 0 && displaced.left >= 0 &&
                          displaced.top + box.height <= part.jpeg.height &&
                          displaced.left + box.width <= part.jpeg.width;
      if (!inside) continue;
      EXPECT_GT(difference(part, displaced, pixels), 4 * tolerances_[i]);
    }
    const auto end = part.output_offset + 3 * box.height * box.width;
    EXPECT_EQ(pixels.data_ptr<std::uint8_t>()[end], kUntouched);
  }

  void expect_parts(const torch::Tensor& pixels) const {
    const auto on_host = pixels.cpu();
    for (std::size_t i = 0; i < parts_.size(); ++i) expect_part(i, on_host);
  }

  static constexpr std::uint8_t kUntouched = 77;
  TemporaryFolder folder_;
  std::unique_ptr<JpegBatchDecoder> decoder_;
  std::deque<Bytes> files_;
  std::vector<JpegPart> parts_;
  std::vector<double> tolerances_;
  std::int64_t size_ = 0;
};

TEST_P(JpegBatch, HasThePixelsOfWholePictures) {
  for (const auto& kind : kinds()) {
    for (const auto& [height, width] : {std::pair{97, 131}, {64, 96}, {16, 200}, {333, 500}}) {
      add(file(kind, height, width), {0, 0, height, width}, kind.tolerance);
    }
  }
  const auto pixels = empty_pixels();
  EXPECT_TRUE(decoder_->decode(parts_, pixels).empty());
  expect_parts(pixels);
}

TEST_P(JpegBatch, HasThePixelsOfParts) {
  for (const auto& kind : kinds()) {
    for (const auto& [height, width] : {std::pair{97, 131}, {120, 90}}) {
      const auto& bytes = file(kind, height, width);
      for (const auto& box : boxes_in(height, width)) add(bytes, box, kind.tolerance);
    }
  }
  const auto pixels = empty_pixels();
  EXPECT_TRUE(decoder_->decode(parts_, pixels).empty());
  expect_parts(pixels);
}

/// The pixels at the border of a part of shared colours depend on colours beyond it.
TEST_P(JpegBatch, HasThePixelsAtTheBordersOfParts) {
  for (const auto& kind : kinds()) {
    const auto& bytes = file(kind, 97, 131);
    const PixelBox inner{21, 33, 40, 50};
    add(bytes, {inner.top, inner.left, 1, inner.width}, 2 * kind.tolerance);
    add(bytes, {inner.top + inner.height - 1, inner.left, 1, inner.width}, 2 * kind.tolerance);
    add(bytes, {inner.top, inner.left, inner.height, 1}, 2 * kind.tolerance);
    add(bytes, {inner.top, inner.left + inner.width - 1, inner.height, 1}, 2 * kind.tolerance);
  }
  const auto pixels = empty_pixels();
  EXPECT_TRUE(decoder_->decode(parts_, pixels).empty());
  const auto on_host = pixels.cpu();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    EXPECT_LE(difference(parts_[i], parts_[i].box, on_host), tolerances_[i]) << "part " << i;
  }
}

TEST_P(JpegBatch, DecodesALargePicture) {
  const auto kind = kinds()[2];
  const auto& bytes = file(kind, 1203, 1601);
  add(bytes, {0, 0, 1203, 1601}, kind.tolerance);
  add(bytes, {501, 700, 301, 303}, kind.tolerance);
  const auto pixels = empty_pixels();
  EXPECT_TRUE(decoder_->decode(parts_, pixels).empty());
  expect_parts(pixels);
}

/// More batches than are under way at a time, one after the other, of different sizes and without a wait between them.
TEST_P(JpegBatch, DecodesOneBatchAfterTheOther) {
  std::vector<const Bytes*> bytes;
  for (const auto& kind : kinds()) bytes.push_back(&file(kind, 97, 131));
  for (std::int64_t i = 0; i < 60; ++i) {
    const auto of = static_cast<std::size_t>(i) % bytes.size();
    add(*bytes[of], {i % 7, i % 5, 50 + i % 40, 60 + i % 60}, kinds()[of].tolerance);
  }
  std::vector<torch::Tensor> batches;
  for (std::size_t i = 0; i < 5; ++i) {
    batches.push_back(empty_pixels());
    const std::vector<JpegPart> some(parts_.begin(),
                                     parts_.end() - static_cast<std::ptrdiff_t>(10 * i));
    EXPECT_TRUE(decoder_->decode(some, batches.back()).empty());
  }
  expect_parts(batches[0]);
  for (std::size_t i = 1; i < 5; ++i) {
    const auto end = parts_[parts_.size() - 10 * i].output_offset;
    EXPECT_TRUE(torch::equal(batches[i].narrow(0, 0, end), batches[0].narrow(0, 0, end)));
    EXPECT_TRUE(batches[i].narrow(0, end, size_ - end).eq(kUntouched).all().item<bool>());
  }
}

TEST_P(JpegBatch, WorksOnTheCurrentStream) {
  for (const auto& kind : kinds()) add(file(kind, 333, 500), {5, 7, 300, 400}, kind.tolerance);
  const c10::cuda::CUDAStreamGuard on_another(c10::cuda::getStreamFromPool());
  const auto pixels = empty_pixels();
  EXPECT_TRUE(decoder_->decode(parts_, pixels).empty());
  expect_parts(pixels);  // copied on that stream
}

/// The files may go as soon as decode() has returned.
TEST_P(JpegBatch, KeepsWhatItReads) {
  const auto kind = kinds()[2];
  const auto bytes = file(kind, 333, 500);
  auto given = bytes;
  add(given, {5, 7, 300, 400}, kind.tolerance);
  const auto pixels = empty_pixels();
  EXPECT_TRUE(decoder_->decode(parts_, pixels).empty());
  std::fill(given.begin(), given.end(), std::uint8_t{0});
  parts_[0].bytes = bytes.data();
  expect_parts(pixels);
}

/// Damaged codes may give pixels of some kind, or be left to the CPU. The others are what they would be alone.
TEST_P(JpegBatch, ADamagedFileHarmsNoOther) {
  for (const auto& kind : kinds()) {
    add(file(kind, 97, 131), {0, 0, 97, 131}, kind.tolerance);
    auto& damaged = files_.emplace_back(file(kind, 97, 131));
    std::uint32_t state = 1;
    for (auto at = damaged.size() / 2; at < damaged.size() - 2; ++at) {
      // No marker is made, and none lost: those of a progressive file are in these bytes too.
      state = state * 1664525U + 1013904223U;
      const bool of_marker = damaged[at] == 0xFF || damaged[at - 1] == 0xFF;
      if (!kind.jpeg.progressive && !of_marker) damaged[at] = (state >> 8) % 255;
    }
    add(damaged, {0, 0, 97, 131}, 255.0);
    add(file(kind, 64, 96), {0, 0, 64, 96}, kind.tolerance);
  }
  const auto pixels = empty_pixels();
  for (const auto i : decoder_->decode(parts_, pixels)) EXPECT_EQ(i % 3, 1U);
  const auto on_host = pixels.cpu();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (i % 3 != 1) expect_part(i, on_host);
  }
}

TEST_P(JpegBatch, NoPartsAreNoWork) {
  EXPECT_TRUE(
      decoder_->decode({}, torch::empty({0}, torch::dtype(torch::kByte).device(torch::kCUDA)))
          .empty());
}

TEST_P(JpegBatch, SaysWhatIsWrong) {
  const auto kind = kinds()[0];
  add(file(kind, 64, 96), {0, 0, 64, 96}, kind.tolerance);
  const auto pixels = empty_pixels();
  const auto error = [&](const PixelBox& box, std::int64_t offset) {
    auto part = parts_[0];
    part.box = box;
    part.output_offset = offset;
    return error_of([&] { decoder_->decode({part}, pixels); });
  };
  EXPECT_TRUE(contains(error({1, 0, 64, 96}, 0), "expected a part of 64x96"));
  EXPECT_TRUE(contains(error({0, -1, 64, 96}, 0), "expected a part of 64x96"));
  EXPECT_TRUE(contains(error({0, 0, 0, 96}, 0), "expected a part of 64x96"));
  EXPECT_TRUE(contains(error({0, 0, 64, 96}, 2), "expected a part of 18433"));
  EXPECT_TRUE(contains(error({0, 0, 64, 96}, -1), "expected a part of 18433"));
  EXPECT_TRUE(contains(error_of([&] { decoder_->decode(parts_, pixels.cpu()); }), "on cpu"));
  EXPECT_TRUE(contains(error_of([] { const JpegBatchDecoder decoder(torch::kCPU); }),
                       "expected a CUDA device"));
}

INSTANTIATE_TEST_SUITE_P(Hardware, JpegBatch, ::testing::Bool());

}  // namespace
