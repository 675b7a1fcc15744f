#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <adaact/data/image_part.h>
#include <torch/types.h>

#include "data/jpeg_batch_decoder.h"
#include "data/plain_jpeg.h"

namespace adaact {

/// A part of a photograph that is decoded where its batch is finished.
struct EncodedPart {
  std::int64_t image = 0;           // its place in the batch
  std::vector<std::uint8_t> bytes;  // of the file
  PlainJpeg jpeg;
  ImagePart part;
};

/// A part of a file that any decoder makes the same pixels of, up to rounding. Nothing of a file that is no plain JPEG,
/// that is to be turned, or of which a CPU would decode a smaller picture because it has `enough` pixels.
std::optional<EncodedPart> encoded_part(std::vector<std::uint8_t> bytes, const ChoosePart& choose,
                                        std::int64_t enough);

/// Does what JpegBatchDecoder::decode() does.
using DecodeParts = std::function<std::vector<std::size_t>(const std::vector<JpegPart>& parts,
                                                           const torch::Tensor& pixels)>;

/// By libjpeg, on the CPU: what decoders of a GPU are compared with.
std::vector<std::size_t> decode_parts_reference(const std::vector<JpegPart>& parts,
                                                const torch::Tensor& pixels);

}  // namespace adaact
