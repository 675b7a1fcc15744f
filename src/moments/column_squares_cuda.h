#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <torch/types.h>

namespace adaact {

/// Where the partial sums of one input lie in their buffer: `rows` rows, each laid out as a sample
/// of the input is, that add up to Σ_b x².
struct PartialSums {
  std::int64_t offset;
  std::int64_t rows;
};

/// A matrix in memory and how a grid of tiles covers it.
struct SquaresPiece {
  const void* input;
  std::int64_t row_stride;
  std::int64_t rows;
  std::int64_t width;    // columns
  std::int64_t partial;  // offset of its partial sums (chunks, width)
  int chunk_rows;        // rows of a tile
  int column_tiles;
  int row_lanes_log2;  // warps of a block that share a column
  int vectorised;      // every row can be read 16 bytes at a time
  int blocks;
};

/// Σ_b x² of many inputs of one device, as partial sums. How an input is split depends on its own
/// shape and strides only.
class ColumnSquares {
 public:
  /// An input (N, sample…) of which each sample is one block of memory; not empty. It must live
  /// until launch().
  PartialSums add(const torch::Tensor& x);

  /// Numbers in the buffer of partial sums.
  std::int64_t size() const noexcept { return size_; }

  /// One launch for each dtype, or more for hundreds of inputs, on the current device and stream.
  void launch(const torch::Tensor& partial) const;

 private:
  /// Returns the number of partial rows (of `width`) that it adds.
  std::int64_t add_piece(torch::ScalarType dtype, SquaresPiece piece);

  std::map<torch::ScalarType, std::vector<SquaresPiece>> pieces_;
  std::int64_t size_ = 0;
};

}  // namespace adaact
