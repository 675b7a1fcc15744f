#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <torch/types.h>

namespace adaact {

/// The images (N, C, H, W) of a layer, channels last, and how a grid of blocks covers their borders.
struct BorderPiece {
  const void* input;
  std::int64_t images;
  std::int64_t channels;
  std::int64_t partial;  // offset of its partial sums (chunks, parts of the border, channels)
  int height;
  int width;
  int chunk_images;        // of a block
  int slices;              // of the channels
  int channel_lanes_log2;  // threads side by side along the channels
  int vectorised;          // every pixel can be read 16 bytes at a time
  int blocks;
};

/// What a layer's sums are made of.
struct BorderLayer {
  const void* totals;  // (total_rows, channels): rows that add up to the sums over all pixels
  std::int64_t total_rows;
  std::int64_t channels;
  std::int64_t partial;  // offset of the partial sums (chunks, parts of the border, channels)
  std::int64_t result;   // offset of its sums (channels, 3, 3)
  std::int64_t chunks;
  int blocks;
};

/// The sums of second_moment() of many 3×3 convolutions of one device that step by one and pad by one, from the sums
/// over all pixels of their inputs: an offset of the kernel sees all but a row and a column of the border, so only the
/// border is read. How a layer is split depends on its own shape only.
class BorderSquares {
 public:
  /// Images (N, C, H, W), dense and channels last, H and W at least 2, not empty, and rows (R, C), contiguous and of
  /// the dtype of sums, that add up to the squares of each channel. Both must live until launch(). Returns the
  /// offset of the layer's sums.
  std::int64_t add(const torch::Tensor& x, const torch::Tensor& totals);

  /// Numbers in the buffers of partial sums and of results.
  std::int64_t partial_size() const noexcept { return partial_size_; }
  std::int64_t size() const noexcept { return size_; }

  /// One launch for each dtype and one for all, or more for hundreds of layers, on the current device and stream.
  void launch(const torch::Tensor& partial, const torch::Tensor& result) const;

 private:
  std::map<torch::ScalarType, std::vector<BorderPiece>> pieces_;
  std::vector<BorderLayer> layers_;
  std::int64_t partial_size_ = 0;
  std::int64_t size_ = 0;
};

}  // namespace adaact
