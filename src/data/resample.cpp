#include "data/resample.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <c10/util/Exception.h>

namespace adaact {
namespace {

/// What some output pixels along one axis take from the input pixels.
class TriangleFilter {
 public:
  /// For the outputs begin … begin + count - 1 out of `out` in all.
  TriangleFilter(std::int64_t in, std::int64_t out, std::int64_t begin, std::int64_t count) {
    const double scale = static_cast<double>(in) / static_cast<double>(out);
    const double reach = std::max(scale, 1.0);
    for (std::int64_t i = begin; i < begin + count; ++i) {
      const double centre = (static_cast<double>(i) + 0.5) * scale;
      const auto first =
          std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(centre - reach)));
      const auto last = std::min(in, static_cast<std::int64_t>(std::ceil(centre + reach)));
      Output output{first, last - first, static_cast<std::int64_t>(weights_.size())};
      double sum = 0.0;
      for (auto j = first; j < last; ++j) sum += weight(j, centre, reach);
      for (auto j = first; j < last; ++j) {
        weights_.push_back(static_cast<float>(weight(j, centre, reach) / sum));
      }
      outputs_.push_back(output);
    }
  }

  std::int64_t size() const { return static_cast<std::int64_t>(outputs_.size()); }
  std::int64_t taps(std::int64_t i) const { return at(i).taps; }
  std::int64_t first_input(std::int64_t i) const { return at(i).first; }
  std::int64_t end_input(std::int64_t i) const { return at(i).first + at(i).taps; }
  const float* weights(std::int64_t i) const { return weights_.data() + at(i).weights; }

 private:
  struct Output {
    std::int64_t first;
    std::int64_t taps;
    std::int64_t weights;  // where they begin
  };

  static double weight(std::int64_t j, double centre, double reach) {
    return std::max(0.0, 1.0 - std::abs(static_cast<double>(j) + 0.5 - centre) / reach);
  }

  const Output& at(std::int64_t i) const { return outputs_[static_cast<std::size_t>(i)]; }

  std::vector<Output> outputs_;
  std::vector<float> weights_;
};

/// Rows [first, end) of the image, (rows, columns.size(), 3), scaled along x alone.
std::vector<float> scale_rows(const RgbImage& image, std::int64_t first, std::int64_t end,
                              const TriangleFilter& columns) {
  std::vector<float> scaled(static_cast<std::size_t>((end - first) * columns.size() * 3));
  auto* out = scaled.data();
  for (auto y = first; y < end; ++y) {
    const auto* row = image.pixels.data() + y * image.width * 3;
    for (std::int64_t x = 0; x < columns.size(); ++x, out += 3) {
      const auto* in = row + columns.first_input(x) * 3;
      const auto* weight = columns.weights(x);
      float red = 0;
      float green = 0;
      float blue = 0;
      for (std::int64_t tap = 0; tap < columns.taps(x); ++tap, in += 3) {
        red += weight[tap] * static_cast<float>(in[0]);
        green += weight[tap] * static_cast<float>(in[1]);
        blue += weight[tap] * static_cast<float>(in[2]);
      }
      out[0] = red;
      out[1] = green;
      out[2] = blue;
    }
  }
  return scaled;
}

/// Where a centre crop begins. Halves go to the even side, as Python rounds: weights are evaluated
/// on the same pixels there and here.
std::int64_t centre_offset(std::int64_t size, std::int64_t crop) {
  const auto doubled = size - crop;
  return doubled / 2 + (doubled % 4 == 3 ? 1 : 0);
}

}  // namespace

void resize_and_crop(const RgbImage& image, std::int64_t resize, std::int64_t crop,
                     std::uint8_t* planes) {
  TORCH_CHECK(crop > 0 && crop <= resize, "resize_and_crop: crop is ", crop, ", expected 1 to ",
              resize);
  const auto shorter = std::min(image.height, image.width);
  const auto height = resize * image.height / shorter;
  const auto width = resize * image.width / shorter;
  const TriangleFilter lines(image.height, height, centre_offset(height, crop), crop);
  const TriangleFilter columns(image.width, width, centre_offset(width, crop), crop);

  const auto first = lines.first_input(0);
  const auto scaled = scale_rows(image, first, lines.end_input(crop - 1), columns);
  const auto row_size = crop * 3;
  std::vector<float> sums(static_cast<std::size_t>(row_size));
  for (std::int64_t y = 0; y < crop; ++y) {
    std::fill(sums.begin(), sums.end(), 0.5F);  // so that cutting off the fraction rounds
    for (std::int64_t tap = 0; tap < lines.taps(y); ++tap) {
      const auto* in = scaled.data() + (lines.first_input(y) - first + tap) * row_size;
      const auto weight = lines.weights(y)[tap];
      for (std::int64_t i = 0; i < row_size; ++i) {
        sums[static_cast<std::size_t>(i)] += weight * in[i];
      }
    }
    for (std::int64_t c = 0; c < 3; ++c) {
      auto* out = planes + (c * crop + y) * crop;
      for (std::int64_t x = 0; x < crop; ++x) {
        const auto value = sums[static_cast<std::size_t>(x * 3 + c)];
        out[x] = static_cast<std::uint8_t>(std::min(value, 255.0F));
      }
    }
  }
}

}  // namespace adaact
