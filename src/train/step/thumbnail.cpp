#include "train/step/thumbnail.h"

#include <algorithm>
#include <vector>

#include <c10/util/Exception.h>
#include <png.h>

namespace adaact {
namespace {

/// The mean of a plane's pixels in rows [top, bottom) and columns [left, right).
std::uint8_t mean_of_block(const std::uint8_t* plane, std::int64_t width, std::int64_t top,
                           std::int64_t bottom, std::int64_t left, std::int64_t right) {
  std::int64_t sum = 0;
  for (auto y = top; y < bottom; ++y) {
    for (auto x = left; x < right; ++x) sum += plane[y * width + x];
  }
  const auto count = (bottom - top) * (right - left);
  return static_cast<std::uint8_t>((sum + count / 2) / count);
}

struct Pixels {
  std::int64_t channels;
  std::int64_t height;
  std::int64_t width;
  std::vector<std::uint8_t> bytes;  // (height, width, channels)
};

Pixels shrunk(const std::uint8_t* planes, const ImageShape& shape, std::int64_t most) {
  // A whole number of pixels become one, so that none counts for more than another.
  const auto side = std::max(shape.height, shape.width);
  const auto factor = side <= most ? 1 : (side + most - 1) / most;
  Pixels small{shape.channels >= 3 ? 3 : 1,
               (shape.height + factor - 1) / factor,
               (shape.width + factor - 1) / factor,
               {}};
  small.bytes.reserve(static_cast<std::size_t>(small.channels * small.height * small.width));
  for (std::int64_t y = 0; y < small.height; ++y) {
    for (std::int64_t x = 0; x < small.width; ++x) {
      for (std::int64_t channel = 0; channel < small.channels; ++channel) {
        const auto* plane = planes + channel * shape.height * shape.width;
        small.bytes.push_back(mean_of_block(plane, shape.width, y * factor,
                                            std::min((y + 1) * factor, shape.height), x * factor,
                                            std::min((x + 1) * factor, shape.width)));
      }
    }
  }
  return small;
}

}  // namespace

std::string thumbnail_png(const Dataset& data, std::int64_t index, std::int64_t most) {
  TORCH_CHECK(most > 0, "thumbnail_png: most is ", most, ", expected > 0");
  std::vector<std::uint8_t> planes(static_cast<std::size_t>(data.shape().bytes()));
  data.read(index, planes.data());
  const auto pixels = shrunk(planes.data(), data.shape(), most);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(pixels.width);
  image.height = static_cast<png_uint_32>(pixels.height);
  image.format = pixels.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  // A first call would only tell the size. What is not compressed at all is shorter than this.
  std::string png(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = png.size();
  const bool written = png_image_write_to_memory(&image, png.data(), &size,
                                                 /*convert_to_8_bit=*/0, pixels.bytes.data(),
                                                 /*row_stride=*/0, nullptr) != 0;
  TORCH_CHECK(written, "cannot make a PNG of image ", index, " of ", data.name(), ": ",
              image.message);
  png.resize(size);
  return png;
}

}  // namespace adaact
