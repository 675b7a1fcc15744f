#pragma once

// What a rank has found in its part of the images, of all of them.

#include <cstdint>

#include <adaact/ranks/communicator.h>
#include <adaact/train/metrics.h>
#include <torch/nn/module.h>

namespace adaact {

Evaluation of_all_ranks(const Evaluation& own, Communicator& ranks);

/// Means over `own_images` images on each rank. The names are those of the model's weights.
SecondMoments of_all_ranks(const SecondMoments& own, std::int64_t own_images,
                           const torch::nn::Module& model, Communicator& ranks);

/// Whether any rank says so.
bool any_rank(bool own, Communicator& ranks);

}  // namespace adaact
