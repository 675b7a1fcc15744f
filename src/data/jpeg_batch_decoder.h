#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <adaact/data/image_part.h>
#include <torch/types.h>

#include "data/plain_jpeg.h"

namespace adaact {

/// A part of a picture that is to be decoded, and where its pixels go.
struct JpegPart {
  const std::uint8_t* bytes = nullptr;  // of the file, until decode() returns
  PlainJpeg jpeg;                       // what plain_jpeg() says of it
  PixelBox box;                         // of the pixels as the file has them, not turned
  std::int64_t output_offset = 0;       // in bytes
};

/// Whether this is a build with CUDA and nvJPEG.
bool has_nvjpeg();

/// Decodes JPEGs on a GPU by nvJPEG. For one thread at a time. A build without nvJPEG throws.
class JpegBatchDecoder {
 public:
  /// `try_hardware`: by the decoder that is made for this, where the GPU has one.
  explicit JpegBatchDecoder(torch::Device device, bool try_hardware = true);
  ~JpegBatchDecoder();
  JpegBatchDecoder(const JpegBatchDecoder&) = delete;
  JpegBatchDecoder& operator=(const JpegBatchDecoder&) = delete;

  /// Whether there is one. Without it the calling thread does half of the work, picture by picture.
  bool in_hardware() const;

  /// Writes the parts into `pixels`, bytes on the GPU: each (height, width, 3) RGB from its offset on. On the current
  /// stream; the host waits for what the call before the last one began, and for parts that the hardware cannot decode,
  /// which are the progressive ones. Returns the places of those that were not decoded, in ascending order, for the CPU to
  /// do. Of a sound file a sample differs by a few units from the CPU's, which rounds otherwise. The hardware does not say
  /// whether codes of pixels were damaged.
  std::vector<std::size_t> decode(const std::vector<JpegPart>& parts, const torch::Tensor& pixels);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaact
