#pragma once

#include <cstdint>
#include <vector>

#include <adaact/observe/geometry.h>
#include <torch/types.h>

#include "moments/column_squares_cuda.h"

namespace adaact {

/// One dimension that windows run along.
struct WindowAxis {
  std::int64_t step;  // in memory, from one position to the next
  int size;
  int kernel;
  int stride;
  int padding;
  int dilation;
  int outputs;
};

/// The partial sums of a layer and the windows in which its kernel sees them.
struct WindowLayer {
  const void* rows;      // partial sums of somebody else's; null: in the buffer
  std::int64_t partial;  // offset in the buffer
  std::int64_t partial_rows;
  std::int64_t columns;
  std::int64_t result;  // offset of its sums (channels, kernel…)
  std::int64_t channels;
  std::int64_t channel_step;
  int slice_channels;  // of a block
  int slices;
  int passes;         // blocks that share the outputs of a slice
  int tile_width;     // positions of the last axis that a block holds at a time
  int channels_last;  // neighbours in memory are channels, not positions
  WindowAxis axes[3];
  int blocks;
};

/// The sums of second_moment() from the partial sums of many layers of one device. How a layer is
/// split depends on its own shape and strides only.
class WindowSums {
 public:
  /// Whether the numbers that describe a layer are in the range that add() takes.
  static bool can_add(const torch::Tensor& x, const Geometry& geometry);

  /// `x` is the batched input that the partial sums were made from. Returns the offset of the
  /// layer's sums.
  std::int64_t add(const torch::Tensor& x, const Geometry& geometry, const PartialSums& partial);

  /// Rows (R, C), contiguous, of partial sums that are not in the buffer: their sum is the result. They must live
  /// until launch(). Returns the offset of the sums.
  std::int64_t add_rows(const torch::Tensor& rows);

  /// Numbers in the buffer of results.
  std::int64_t size() const noexcept { return size_; }

  /// One launch, or more for hundreds of layers, on the current device and stream.
  void launch(const torch::Tensor& partial, const torch::Tensor& result) const;

 private:
  std::int64_t add_layer(WindowLayer layer, std::int64_t sums);

  std::vector<WindowLayer> layers_;
  std::int64_t size_ = 0;
};

}  // namespace adaact
