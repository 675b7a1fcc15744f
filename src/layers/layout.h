#pragma once

// How the elements of images (N, C, H, W) lie in memory, as kernels go through them: in rows of channels
// (channels last) or in planes, one channel after the other. Rows, or images, may be further apart than they
// are long: a few channels of a tensor that has more.

#include <cstdint>

#include <torch/types.h>

namespace adaact {

/// Elements from one row of channels to the next, or from one image to the next.
std::int64_t distance_of_rows(const torch::Tensor& images, bool channels_last);

bool is_laid_out_by_channels(const torch::Tensor& images, bool channels_last);

}  // namespace adaact
