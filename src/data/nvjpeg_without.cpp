#include <c10/util/Exception.h>

#include "data/jpeg_batch_decoder.h"

namespace adaact {
namespace {

[[noreturn]] void throw_without_nvjpeg() {
  TORCH_CHECK(
      false,
      "adaact: JPEGs are decoded on a GPU by builds with nvJPEG alone: this one has none; it "
      "needs a LibTorch with CUDA, nvjpeg.h and libnvjpeg, and -DADAACT_NVJPEG=ON says why "
      "they are not found");
}

}  // namespace

class JpegBatchDecoder::Impl {};

bool has_nvjpeg() { return false; }

JpegBatchDecoder::JpegBatchDecoder(torch::Device /*device*/, bool /*try_hardware*/) {
  throw_without_nvjpeg();
}
JpegBatchDecoder::~JpegBatchDecoder() = default;

bool JpegBatchDecoder::in_hardware() const { throw_without_nvjpeg(); }

std::vector<std::size_t> JpegBatchDecoder::decode(const std::vector<JpegPart>& /*parts*/,
                                                  const torch::Tensor& /*pixels*/) {
  throw_without_nvjpeg();
}

}  // namespace adaact
