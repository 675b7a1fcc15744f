#pragma once

// V_t of Algorithm 1 and its bias correction, for any device. On a GPU, where a layer's rows all read the same
// input, update_cuda.cu does the same for all layers at once.

#include <cstdint>
#include <vector>

#include <adaact/optim/row_moments.h>

#include "moments/accumulator.h"

namespace adaact {

/// Lines 4 and 5: V_t = β₂ V_{t−1} + (1−β₂) clamp(Ã_t) for the segments observed in this step; the others
/// keep theirs. A segment is split where an observation covers only part of it.
void update_row_moments(RowMoments& moments, const std::vector<const PendingMoment*>& observed,
                        double beta2, double clip_low, double clip_high);

/// Line 6: V̂_t = V_t / (1 − β₂ᵗ), t the observations of each segment.
torch::Tensor unbiased(const RowMoments& moments, double beta2);

/// Whether the segments are runs of equal length that make up all rows and were observed equally often.
bool cover_all_rows_evenly(const std::vector<RowSegment>& segments, std::int64_t rows);

}  // namespace adaact
