#include <c10/util/Exception.h>

#include "data/decode_image.h"

#ifdef ADAACT_WITH_WEBP
#include <webp/decode.h>
#endif

namespace adaact {

#ifdef ADAACT_WITH_WEBP
namespace {

/// A plain area takes no bytes at all in a WebP file. So a picture of this many pixels may come in a few
/// bytes, as a drawing does; of what is larger, a byte for so many pixels must be there.
constexpr std::int64_t kPixelsOfAnyFile = std::int64_t{1} << 24;
constexpr std::int64_t kMostPixelsOfAByte = 1000;

std::int64_t least_webp_bytes(std::int64_t pixels) {
  return pixels <= kPixelsOfAnyFile ? 0 : pixels / kMostPixelsOfAByte;
}

const char* reason_of(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "there is not enough memory";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it has something that libwebp cannot decode";
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "the file ends early";
    default:
      return "its data are damaged";
  }
}

void check_status(const EncodedImage& file, VP8StatusCode status) {
  TORCH_CHECK(status == VP8_STATUS_OK, "adaact: ", file.path.string(),
              " cannot be decoded: ", reason_of(status));
}

}  // namespace

RgbImage decode_webp(const EncodedImage& file) {
  WebPDecoderConfig config;
  TORCH_CHECK(WebPInitDecoderConfig(&config) != 0,
              "adaact: libwebp is of another version than its headers");
  const auto* bytes = file.bytes.data();
  check_status(file, WebPGetFeatures(bytes, file.bytes.size(), &config.input));
  TORCH_CHECK(config.input.has_animation == 0, "adaact: ", file.path.string(),
              " is an animated WebP, expected one picture");
  const std::int64_t height = config.input.height;
  const std::int64_t width = config.input.width;
  auto image = allocate_image(file, height, width, least_webp_bytes(height * width));
  auto& output = config.output;
  output.colorspace = MODE_RGB;
  output.is_external_memory = 1;
  output.u.RGBA.rgba = image.pixels.data();
  output.u.RGBA.stride = config.input.width * 3;
  output.u.RGBA.size = image.pixels.size();
  check_status(file, WebPDecode(bytes, file.bytes.size(), &config));
  return image;
}

#else

RgbImage decode_webp(const EncodedImage& file) {
  TORCH_CHECK(false, "adaact: ", file.path.string(),
              " is a WebP file, which this build cannot read: it was made without libwebp");
}

#endif

}  // namespace adaact
