#include "data/warp_image.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu_dispatch.h"

namespace adaact {
namespace {

/// A plane with so many more pixels on each side, equal to its outermost, that all neighbours of a place
/// inside are there.
class PaddedPlane {
 public:
  static constexpr int kBefore = 2;
  static constexpr int kAfter = 2;

  PaddedPlane(std::int64_t height, std::int64_t width)
      : height_(height),
        width_(width),
        stride_(width + kBefore + kAfter),
        pixels_(static_cast<std::size_t>((height + kBefore + kAfter) * stride_)) {}

  std::int64_t stride() const { return stride_; }
  /// The upper left pixel of the plane itself.
  const std::uint8_t* origin() const { return pixels_.data() + kBefore * stride_ + kBefore; }

  void fill(const std::uint8_t* plane) {
    for (std::int64_t y = -kBefore; y < height_ + kAfter; ++y) {
      const auto* in = plane + std::clamp<std::int64_t>(y, 0, height_ - 1) * width_;
      auto* out = pixels_.data() + (y + kBefore) * stride_;
      std::memset(out, in[0], kBefore);
      std::memcpy(out + kBefore, in, static_cast<std::size_t>(width_));
      std::memset(out + kBefore + width_, in[width_ - 1], kAfter);
    }
  }

 private:
  const std::int64_t height_;
  const std::int64_t width_;
  const std::int64_t stride_;
  std::vector<std::uint8_t> pixels_;
};

struct FindPositions {
  static ADAACT_LOOP_BODY void run(AffineMap map, int y, int width, double* xs, double* ys) {
    for (int x = 0; x < width; ++x) {
      const auto position = mapped(map, x, y);
      xs[x] = position.x;
      ys[x] = position.y;
    }
  }
};

/// Replaces positions inside the image, in place, by how far each is to the right of a pixel's middle and below it,
/// and writes down the offset of that pixel.
struct FindPlaces {
  static ADAACT_LOOP_BODY void run(std::int64_t count, int stride, double* xs, double* ys,
                                   std::int32_t* offset) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto place = place_between({xs[i], ys[i]});
      offset[i] = place.y * stride + place.x;
      xs[i] = place.right;
      ys[i] = place.down;
    }
  }
};

/// Where the pixels of a row come from.
class RowOfPlaces {
 public:
  RowOfPlaces(const ImageShape& shape, std::int64_t stride)
      : height_(static_cast<int>(shape.height)),
        width_(static_cast<int>(shape.width)),
        stride_(static_cast<int>(stride)),
        right_(static_cast<std::size_t>(width_)),
        down_(right_.size()),
        offset_(right_.size()) {}

  void find(const AffineMap& map, std::int64_t y) {
    run_vectorized<FindPositions>(map, static_cast<int>(y), width_, right_.data(), down_.data());
    const auto inside = [&](int x) {
      const auto i = static_cast<std::size_t>(x);
      return lies_inside({right_[i], down_[i]}, height_, width_);
    };
    // The pixels that come from inside lie side by side, because a straight line crosses a rectangle once.
    begin_ = 0;
    while (begin_ < width_ && !inside(begin_)) ++begin_;
    end_ = width_;
    while (end_ > begin_ && !inside(end_ - 1)) --end_;
    run_vectorized<FindPlaces>(count(), stride_, right_.data() + begin_, down_.data() + begin_,
                               offset_.data() + begin_);
  }

  /// The first pixel that comes from inside, and how many do.
  std::int64_t begin() const { return begin_; }
  std::int64_t count() const { return end_ - begin_; }
  /// Offsets from a padded plane's origin.
  const std::int32_t* offset() const { return offset_.data() + begin_; }
  const double* right() const { return right_.data() + begin_; }
  const double* down() const { return down_.data() + begin_; }

 private:
  const int height_;
  const int width_;
  const int stride_;
  int begin_ = 0;
  int end_ = 0;
  std::vector<double> right_;
  std::vector<double> down_;
  std::vector<std::int32_t> offset_;
};

/// How a row is interpolated. Many maps do not move rows, or not columns, by parts of a pixel: what is multiplied
/// by 0 then is left out.
template <bool Cubic, bool Across, bool Down>
struct Interpolate {
  static constexpr int kFirstColumn = Cubic ? -1 : 0;
  static constexpr int kFirstRow = Cubic && Down ? -1 : 0;
  static constexpr int kRows = Down ? (Cubic ? 4 : 2) : 1;

  /// The pixels around each place: kRows rows of four for each.
  static void gather(const std::uint8_t* origin, std::int64_t stride, const std::int32_t* offset,
                     std::int64_t count, std::uint8_t* around) {
    for (int row = 0; row < kRows; ++row, around += 4 * count) {
      const auto* in = origin + (row + kFirstRow) * stride + kFirstColumn;
      for (std::int64_t i = 0; i < count; ++i) std::memcpy(around + 4 * i, in + offset[i], 4);
    }
  }

  static ADAACT_LOOP_BODY double along(const std::uint8_t* row, double right) {
    if constexpr (!Across) return row[-kFirstColumn];
    if constexpr (Cubic) return cubic_between(row[0], row[1], row[2], row[3], right);
    return linear_between(row[0], row[1], right);
  }

  static ADAACT_LOOP_BODY void run(const std::uint8_t* around, const double* right,
                                   const double* down, std::int64_t count, std::uint8_t* out) {
    const auto row = 4 * count;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto* at = around + 4 * i;
      double value = along(at, right[i]);
      if constexpr (Down && Cubic) {
        value = cubic_between(value, along(at + row, right[i]), along(at + 2 * row, right[i]),
                              along(at + 3 * row, right[i]), down[i]);
      } else if constexpr (Down) {
        value = linear_between(value, along(at + row, right[i]), down[i]);
      }
      out[i] = level_between(value);
    }
  }
};

/// Interpolates all places of a row.
class RowInterpolation {
 public:
  RowInterpolation(std::int64_t stride, const RowOfPlaces& places)
      : stride_(stride),
        places_(places),
        across_(any_between(places.right())),
        downwards_(any_between(places.down())) {}

  /// `around` has room for 16 bytes of each place.
  void run(ResampleFilter filter, const std::uint8_t* origin, std::uint8_t* around,
           std::uint8_t* out) const {
    filter == ResampleFilter::Bicubic ? run<true>(origin, around, out)
                                      : run<false>(origin, around, out);
  }

 private:
  bool any_between(const double* shares) const {
    return std::any_of(shares, shares + places_.count(), [](double share) { return share != 0.0; });
  }

  template <bool Cubic>
  void run(const std::uint8_t* origin, std::uint8_t* around, std::uint8_t* out) const {
    if (across_ && downwards_) return run<Interpolate<Cubic, true, true>>(origin, around, out);
    if (across_) return run<Interpolate<Cubic, true, false>>(origin, around, out);
    if (downwards_) return run<Interpolate<Cubic, false, true>>(origin, around, out);
    run<Interpolate<Cubic, false, false>>(origin, around, out);
  }

  template <typename Kind>
  void run(const std::uint8_t* origin, std::uint8_t* around, std::uint8_t* out) const {
    Kind::gather(origin, stride_, places_.offset(), places_.count(), around);
    run_vectorized<Kind>(static_cast<const std::uint8_t*>(around), places_.right(), places_.down(),
                         places_.count(), out);
  }

  const std::int64_t stride_;
  const RowOfPlaces& places_;
  const bool across_;
  const bool downwards_;
};

}  // namespace

void warp_image(const AffineMap& map, ResampleFilter filter, const ImageShape& shape,
                const std::uint8_t* in, std::uint8_t* out) {
  const auto [channels, height, width] = shape;
  const auto pixels = height * width;
  std::vector<PaddedPlane> planes;
  for (std::int64_t c = 0; c < channels; ++c) {
    planes.emplace_back(height, width).fill(in + c * pixels);
    std::memset(out + c * pixels, outside_level(c), static_cast<std::size_t>(pixels));
  }
  const auto stride = planes[0].stride();
  RowOfPlaces places(shape, stride);
  std::vector<std::uint8_t> around(static_cast<std::size_t>(4 * 4 * width));
  for (std::int64_t y = 0; y < height; ++y) {
    places.find(map, y);
    const RowInterpolation row(stride, places);
    for (std::int64_t c = 0; c < channels; ++c) {
      row.run(filter, planes[static_cast<std::size_t>(c)].origin(), around.data(),
              out + c * pixels + y * width + places.begin());
    }
  }
}

}  // namespace adaact
