#pragma once

#include <vector>

#include <adaact/optim/row_moments.h>

#include "moments/accumulator.h"

namespace adaact {

/// V_t = β₂ V_{t−1} + (1−β₂) clamp(Ã_t) for the segments observed in this step; the others keep
/// theirs. A segment is split where an observation covers only part of it.
void update_row_moments(RowMoments& moments, const std::vector<const PendingMoment*>& observed,
                        double beta2, double clip_low, double clip_high);

/// V̂_t = V_t / (1 − β₂ᵗ), t the observations of each segment.
torch::Tensor unbiased(const RowMoments& moments, double beta2);

}  // namespace adaact
