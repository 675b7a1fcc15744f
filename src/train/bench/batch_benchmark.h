#pragma once

#include <cstdint>

#include <adaact/data/dataset.h>

namespace adaact {

/// The time in which a GPU makes a batch for training from images in its memory: its share of the shuffle of an
/// epoch, and one kernel that crops, flips, normalises and lays out. Works on the
/// current stream, which must not be the default one. A build without CUDA throws.
double milliseconds_per_device_batch(const ImageShape& shape, std::int64_t batch_size,
                                     bool channels_last, torch::Device device);

}  // namespace adaact
