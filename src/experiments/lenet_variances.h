#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <adaact/train/metrics.h>

#include "experiments/curves.h"
#include "experiments/experiment.h"

namespace adaact {

// How activations of LeNet-5 vary while it is trained: what two figures of the paper and one of its
// appendix show.

/// One run of those figures. They share it: nothing is trained twice.
PlannedRun lenet_run(const std::string& optimizer, const ExperimentForm& form, std::uint64_t seed);

/// The layers whose input is an activation: all but the first, which reads images.
std::vector<std::string> hidden_layers(const std::vector<RunSeries>& all);
/// What hidden_layers() means, for the reader of a page.
inline constexpr char kHiddenLayers[] =
    "A layer's name stands for what it reads: conv2 for the output of conv1 after ReLU and "
    "pooling. "
    "conv1 is left out, because the images that it reads are no activations.";

/// Of one layer in each epoch; of several seeds together.
std::vector<ActivationVariance> variances_by_epoch(const RunSeries& series,
                                                   const std::string& layer);

/// Means of the means, lowest of the lowest, highest of the highest. NaN where one of them is NaN, or
/// where there is none: nothing can be said then.
ActivationVariance together(const std::vector<ActivationVariance>& measured);

/// Three digits.
std::string variance_text(double variance);

}  // namespace adaact
