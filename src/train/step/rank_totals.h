#pragma once

// What the parts of all ranks come to: each rank has seen its own images only, and a run tells of all of them.

#include <cstdint>

#include <adaact/ranks/communicator.h>
#include <adaact/ranks/gradient_exchange.h>
#include <adaact/train/metrics.h>
#include <adaact/train/test_details.h>
#include <torch/nn/module.h>

namespace adaact {

/// Means over the images of all ranks, of which this one has evaluated `own`.
Evaluation of_all_ranks(const Evaluation& own, Communicator& ranks);

/// Of the images of all ranks, of which `own` are this one's.
TestDetails of_all_ranks(const TestDetails& own, Communicator& ranks);

/// Means over the images of all ranks, of which this one has seen `own_images`. The names are those of the model's
/// weights.
SecondMoments of_all_ranks(const SecondMoments& own, std::int64_t own_images,
                           const torch::nn::Module& model, Communicator& ranks);

/// How ranks exchange gradients of training_pass(): each rank's loss is its images' share of the mean over all.
GradientExchangeOptions shares_of_mean();

/// Whether `own` is true on any rank.
bool any_rank(bool own, Communicator& ranks);

}  // namespace adaact
