#pragma once

// Whoever writes a layer's input has its elements in registers, and can sum their squares on the way: that saves the
// statistics a pass over memory. It asks whether anybody wants them, offers them, and a MomentAccumulator that is
// then shown the input finds them.

#include <cstdint>

#include <adaact/observe/geometry.h>
#include <torch/types.h>

namespace adaact {

/// Whether an observer of the model that has this parameter would use squares that are offered now, on this thread.
bool squares_are_wanted(const torch::Tensor& parameter);

/// `parts` (parts, channels), float32, or float64 where `written` is: rows that add up to Σ x² of each channel, of the
/// values as they were stored. Channels are dimension 1 of images (N, C, H, W), of all else the last dimension. Only
/// the last few offers of a thread are remembered, none beyond the memory of `written`.
void offer_squares(const torch::Tensor& written, const torch::Tensor& parts);

/// What was offered with this input; undefined if nothing was, or if it has been changed since.
torch::Tensor offered_squares(const torch::Tensor& input);

/// What has to be read of an input whose squares were offered: nothing where every sample and position counts alike; of
/// images that a 3×3 kernel reads the border, since each offset sees all but a row and a column of it; everything where
/// the squares are of no use.
enum class StillToRead : std::uint8_t { Nothing, Border, Everything };

StillToRead still_to_read(const torch::Tensor& input, const Geometry& geometry);

}  // namespace adaact
