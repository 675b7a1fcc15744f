#include "data/nvjpeg_handles.h"

#include <c10/util/Exception.h>

namespace adaact {
namespace {

const char* meaning_of(nvjpegStatus_t status) {
  switch (status) {
    case NVJPEG_STATUS_NOT_INITIALIZED:
      return "not initialized";
    case NVJPEG_STATUS_INVALID_PARAMETER:
      return "invalid parameter";
    case NVJPEG_STATUS_BAD_JPEG:
      return "bad JPEG";
    case NVJPEG_STATUS_JPEG_NOT_SUPPORTED:
      return "JPEG not supported";
    case NVJPEG_STATUS_ALLOCATOR_FAILURE:
      return "out of memory";
    case NVJPEG_STATUS_EXECUTION_FAILED:
      return "execution failed";
    case NVJPEG_STATUS_ARCH_MISMATCH:
      return "not for this GPU";
    case NVJPEG_STATUS_INTERNAL_ERROR:
      return "internal error";
    case NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED:
      return "not supported";
    case NVJPEG_STATUS_INCOMPLETE_BITSTREAM:
      return "incomplete file";
    default:
      return "unknown status";
  }
}

}  // namespace

void check_nvjpeg(nvjpegStatus_t status, const char* call) {
  TORCH_CHECK(status == NVJPEG_STATUS_SUCCESS, "adaact: ", call,
              " of nvJPEG failed: ", meaning_of(status), " (", static_cast<int>(status), ")");
}

bool goes_well(nvjpegStatus_t status, const char* call) {
  if (status == NVJPEG_STATUS_ALLOCATOR_FAILURE || status == NVJPEG_STATUS_NOT_INITIALIZED) {
    check_nvjpeg(status, call);
  }
  return status == NVJPEG_STATUS_SUCCESS;
}

NvjpegParameters rgb_parameters(nvjpegHandle_t library) {
  auto parameters = made_by_nvjpeg<NvjpegParameters>("nvjpegDecodeParamsCreate",
                                                     nvjpegDecodeParamsCreate, library);
  check_nvjpeg(nvjpegDecodeParamsSetOutputFormat(parameters.get(), NVJPEG_OUTPUT_RGBI),
               "nvjpegDecodeParamsSetOutputFormat");
  return parameters;
}

}  // namespace adaact
