#pragma once

#include <cstdint>
#include <vector>

#include <torch/types.h>

namespace adaact {

/// Rows [begin, end) of a weight that read the same input, and how often their input was observed.
/// A linear layer has one such run, a grouped convolution one per group, a packed projection up to
/// three.
struct RowSegment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t observations = 0;
};

/// V: moving averages of the moments of each segment's input. Rows that never had an observation
/// belong to no segment.
struct RowMoments {
  std::vector<RowSegment> segments;  // ordered, disjoint
  torch::Tensor ema;                 // V (S, …), not bias corrected
};

}  // namespace adaact
