#include "data/resample.h"

#include <algorithm>
#include <array>
#include <vector>

#include <c10/util/Exception.h>

#include "data/resample_weights.h"
#include "kernels/cpu_dispatch.h"

namespace adaact {
namespace {

/// How many rows are scaled along x at a time. Their samples lie side by side, as wide as the sums, so that a vector
/// instruction adds to the sums of all these rows at once.
constexpr std::int64_t kStrip = 8;

/// In a strip, sample i of row r is at kStrip * i + r.
struct WeaveRows {
  static ADAACT_LOOP_BODY void run(const std::uint8_t* const* rows, std::int64_t count,
                                   std::int32_t* strip) {
    const auto *row0 = rows[0], *row1 = rows[1], *row2 = rows[2], *row3 = rows[3];
    const auto *row4 = rows[4], *row5 = rows[5], *row6 = rows[6], *row7 = rows[7];
    for (std::int64_t i = 0; i < count; ++i) {
      auto* out = strip + kStrip * i;
      out[0] = row0[i];
      out[1] = row1[i];
      out[2] = row2[i];
      out[3] = row3[i];
      out[4] = row4[i];
      out[5] = row5[i];
      out[6] = row6[i];
      out[7] = row7[i];
    }
  }
};

struct UnweaveRow {
  static ADAACT_LOOP_BODY void run(const std::uint8_t* strip, std::int64_t row, std::int64_t count,
                                   std::uint8_t* out) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = strip[kStrip * i + row];
  }
};

/// A strip of the inputs from `first` on, scaled along x: all outputs of each channel, plane after plane.
template <int Channels>
struct ScaleStrip {
  static ADAACT_LOOP_BODY void run(const std::int32_t* strip, std::int64_t first,
                                   const ResampleWeights* columns, std::uint8_t* scaled) {
    constexpr std::int64_t kLanes = Channels * kStrip;
    const auto count = columns->size();
    for (std::int64_t x = 0; x < count; ++x) {
      const auto* weights = columns->weights(x);
      const auto* in = strip + kLanes * (columns->first_input(x) - first);
      const auto taps = columns->taps(x);
      std::int32_t sums[kLanes];
      for (std::int64_t i = 0; i < kLanes; ++i) sums[i] = kHalfAWeight;
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        for (std::int64_t i = 0; i < kLanes; ++i) sums[i] += weights[tap] * in[kLanes * tap + i];
      }
      for (std::int64_t c = 0; c < Channels; ++c) {
        auto* out = scaled + kStrip * (c * count + x);
        for (std::int64_t i = 0; i < kStrip; ++i) out[i] = level_of_sum(sums[c * kStrip + i]);
      }
    }
  }
};

/// The rows of an image, scaled along x when they are asked for, in ascending order.
template <int Channels>
class ScaledRows {
 public:
  /// `kept` is how many of the rows before the last one that was asked for can still be asked for.
  ScaledRows(const PixelView& image, const ResampleWeights& columns, std::int64_t kept)
      : image_(image),
        columns_(columns),
        first_column_(columns.first_of_all()),
        samples_(Channels * (columns.end_of_all() - first_column_)),
        row_size_(Channels * columns.size()),
        slots_(kept + kStrip),
        rows_(bytes(slots_ * row_size_)),
        strip_(static_cast<std::size_t>(kStrip * samples_)),
        scaled_(bytes(kStrip * row_size_)) {}

  std::int64_t row_size() const { return row_size_; }

  const std::uint8_t* row(std::int64_t y) {
    if (y >= end_) scale(y);
    return place_of(y);
  }

 private:
  static std::vector<std::uint8_t> bytes(std::int64_t count) {
    return std::vector<std::uint8_t>(static_cast<std::size_t>(count));
  }

  std::uint8_t* place_of(std::int64_t y) { return rows_.data() + y % slots_ * row_size_; }

  /// The strip that begins with a row. Below the image its last row is repeated.
  void scale(std::int64_t y) {
    std::array<const std::uint8_t*, kStrip> rows{};
    for (std::int64_t i = 0; i < kStrip; ++i) {
      const auto row = std::min(y + i, image_.height - 1);
      rows[static_cast<std::size_t>(i)] =
          image_.pixels + (row * image_.width + first_column_) * Channels;
    }
    run_vectorized<WeaveRows>(rows.data(), samples_, strip_.data());
    run_vectorized<ScaleStrip<Channels>>(strip_.data(), first_column_, &columns_, scaled_.data());
    for (std::int64_t i = 0; i < kStrip; ++i) {
      run_vectorized<UnweaveRow>(scaled_.data(), i, row_size_, place_of(y + i));
    }
    end_ = y + kStrip;
  }

  const PixelView image_;
  const ResampleWeights& columns_;
  const std::int64_t first_column_;
  const std::int64_t samples_;  // of a row that are needed
  const std::int64_t row_size_;
  const std::int64_t slots_;
  std::vector<std::uint8_t> rows_;
  std::vector<std::int32_t> strip_;
  std::vector<std::uint8_t> scaled_;
  std::int64_t end_ = 0;  // of the rows that were scaled
};

/// A weighted sum of rows.
struct SumRows {
  static ADAACT_LOOP_BODY void run(const std::uint8_t* const* rows, const std::int32_t* weights,
                                   std::int64_t taps, std::int64_t count, std::int32_t* sums,
                                   std::uint8_t* out) {
    for (std::int64_t i = 0; i < count; ++i) sums[i] = kHalfAWeight;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const auto* row = rows[tap];
      const auto weight = weights[tap];
      for (std::int64_t i = 0; i < count; ++i) sums[i] += weight * row[i];
    }
    for (std::int64_t i = 0; i < count; ++i) out[i] = level_of_sum(sums[i]);
  }
};

template <int Channels>
void resample(const PixelView& image, const ResampleWeights& lines, const ResampleWeights& columns,
              std::uint8_t* planes) {
  const auto width = columns.size();
  const auto height = lines.size();
  ScaledRows<Channels> scaled(image, columns, lines.most_taps());
  std::vector<const std::uint8_t*> rows(static_cast<std::size_t>(lines.most_taps()));
  std::vector<std::int32_t> sums(static_cast<std::size_t>(scaled.row_size()));
  std::vector<std::uint8_t> line(sums.size());
  for (std::int64_t y = 0; y < height; ++y) {
    const auto taps = lines.taps(y);
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      rows[static_cast<std::size_t>(tap)] = scaled.row(lines.first_input(y) + tap);
    }
    run_vectorized<SumRows>(rows.data(), lines.weights(y), taps, scaled.row_size(), sums.data(),
                            line.data());
    for (std::int64_t c = 0; c < Channels; ++c) {
      std::copy_n(line.data() + c * width, width, planes + (c * height + y) * width);
    }
  }
}

void resample(const PixelView& image, const ResampleWeights& lines, const ResampleWeights& columns,
              std::uint8_t* planes) {
  if (image.channels == 3) return resample<3>(image, lines, columns, planes);
  TORCH_INTERNAL_ASSERT(image.channels == 1);
  resample<1>(image, lines, columns, planes);
}

/// Where a centre crop begins. Halves go to the even side, as Python rounds: weights are evaluated
/// on the same pixels there and here.
std::int64_t centre_offset(std::int64_t size, std::int64_t crop) {
  const auto doubled = size - crop;
  return doubled / 2 + (doubled % 4 == 3 ? 1 : 0);
}

}  // namespace

void resize_image(const PixelView& image, ResampleFilter filter, bool mirrored, std::int64_t height,
                  std::int64_t width, std::uint8_t* planes) {
  const ResampleWeights lines({image.height, height, 0, height}, filter);
  ResampleWeights columns({image.width, width, 0, width}, filter);
  if (mirrored) columns.reverse();
  resample(image, lines, columns, planes);
}

void resize_and_crop(const RgbImage& image, std::int64_t resize, std::int64_t crop,
                     std::uint8_t* planes) {
  TORCH_CHECK(crop > 0 && crop <= resize, "resize_and_crop: crop is ", crop, ", expected 1 to ",
              resize);
  const auto shorter = std::min(image.height, image.width);
  const auto weights = [&](std::int64_t in) {
    const auto out = resize * in / shorter;
    return ResampleWeights({in, out, centre_offset(out, crop), crop}, ResampleFilter::Bilinear);
  };
  resample({image.pixels.data(), image.height, image.width, 3}, weights(image.height),
           weights(image.width), planes);
}

}  // namespace adaact
