#pragma once

#include <cstddef>
#include <cstdint>

#include <adaact/data/image_part.h>
#include <nvjpeg.h>

namespace adaact {

/// What nvJPEG is to decode.
struct NvjpegTask {
  const std::uint8_t* bytes = nullptr;  // pinned
  std::size_t size = 0;
  std::int64_t pixels = 0;  // of the whole picture
  bool progressive = false;
  bool whole = false;  // and not the region alone
  PixelBox region;
  nvjpegImage_t to{};
};

/// How the library spreads colours over pixels: as libjpeg-turbo does, and not as squares.
inline constexpr unsigned kNvjpegFlags = NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION;

inline nvjpegStatus_t set_region(nvjpegDecodeParams_t parameters, const NvjpegTask& task) {
  if (task.whole) return nvjpegDecodeParamsSetROI(parameters, 0, 0, -1, -1);
  const auto& box = task.region;
  return nvjpegDecodeParamsSetROI(parameters, static_cast<int>(box.left), static_cast<int>(box.top),
                                  static_cast<int>(box.width), static_cast<int>(box.height));
}

}  // namespace adaact
