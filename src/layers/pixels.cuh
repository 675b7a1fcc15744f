#pragma once

// Images with channels last, a thread for neighbouring channels of one pixel.

#include <cstdint>
#include <type_traits>

#include "kernels/ceil_div.h"
#include "kernels/runs.cuh"

namespace adaact {

constexpr int kPixelThreads = 256;

/// Where a thread is in images of this height and width.
struct Pixel {
  std::int64_t image;
  int row, column, channel;
};

/// The place of the i-th run of channels. Tensors have fewer than 2³¹ elements, because longer divisions would take
/// longer than memory does.
inline __device__ Pixel pixel_of(std::int64_t i, int channels, int height, int width) {
  const auto run = static_cast<unsigned>(i);
  const auto pixel = run / static_cast<unsigned>(channels);
  const auto row = pixel / static_cast<unsigned>(width);
  const auto image = row / static_cast<unsigned>(height);
  Pixel at{};
  at.channel = static_cast<int>(run - pixel * static_cast<unsigned>(channels));
  at.column = static_cast<int>(pixel - row * static_cast<unsigned>(width));
  at.row = static_cast<int>(row - image * static_cast<unsigned>(height));
  at.image = image;
  return at;
}

/// Calls launch(width) with the elements of a run as a compile-time constant.
template <typename Scalar, typename Launch>
void with_run(std::int64_t channels, const void* a, const void* b, const Launch& launch) {
  constexpr int kWidth = 16 / static_cast<int>(sizeof(Scalar));
  const bool aligned = many_tensors::aligned_for_runs<kWidth>(static_cast<const Scalar*>(a),
                                                              static_cast<const Scalar*>(b));
  if (channels % kWidth == 0 && aligned) {
    launch(std::integral_constant<int, kWidth>());
  } else {
    launch(std::integral_constant<int, 1>());
  }
}

inline unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(ceil_div(count, kPixelThreads));
}

}  // namespace adaact
