#include "data/encoded_part.h"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>

#include "data/decode_image.h"
#include "data/exif_orientation.h"

namespace adaact {

std::optional<EncodedPart> encoded_part(std::vector<std::uint8_t> bytes, const ChoosePart& choose,
                                        std::int64_t enough) {
  const auto jpeg = plain_jpeg(bytes.data(), bytes.size());
  const bool is_upright = jpeg && exif_orientation(bytes) == 1;
  if (!is_upright || jpeg->height > kMostPixels / jpeg->width) return std::nullopt;
  const auto part = choose(jpeg->height, jpeg->width);
  if (jpeg_divisor(part.box, enough) > 1) return std::nullopt;
  return EncodedPart{0, std::move(bytes), *jpeg, part};
}

std::vector<std::size_t> decode_parts_reference(const std::vector<JpegPart>& parts,
                                                const torch::Tensor& pixels) {
  std::vector<std::size_t> not_decoded;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& part = parts[i];
    const EncodedImage file{{}, {part.bytes, part.bytes + part.jpeg.size}};
    const auto choose = [&](std::int64_t /*height*/, std::int64_t /*width*/) { return part.box; };
    try {
      const auto image = decode_part_of_jpeg(file, choose, 0);
      std::copy(image.pixels.begin(), image.pixels.end(),
                pixels.data_ptr<std::uint8_t>() + part.output_offset);
    } catch (const c10::Error&) {
      not_decoded.push_back(i);
    }
  }
  return not_decoded;
}

}  // namespace adaact
